# The LibTorch binding on devices.
kolo_test(multirank.torch_device TORCH LABELS multirank torch unsanitized TIMEOUT 300 COST 25 LINK kolo_torch_device SOURCES
  torch_device/collectives_test.cpp torch_device/images_test.cpp torch_device/mutation_test.cpp torch_device/step_log_test.cpp torch_device/training_test.cpp)
kolo_test(multirank.fused TORCH LABELS multirank torch unsanitized TIMEOUT 300 COST 25 LINK kolo_torch_device SOURCES
  torch_device/fused_test.cpp)

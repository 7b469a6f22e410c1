# The LibTorch binding on devices.
kolo_test(multirank.torch_device TORCH LABELS multirank torch TIMEOUT 300 LINK kolo_torch_device SOURCES
  torch_device/collectives_test.cpp torch_device/mutation_test.cpp torch_device/training_test.cpp)

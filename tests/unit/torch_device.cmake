# That tensors on the simulated device compute what they should, and that it finds what is wrong with them.
kolo_test(unit.torch_device TORCH LABELS unit torch unsanitized TIMEOUT 120 LINK kolo_torch_device SOURCES
  torch_device/backend_test.cpp)

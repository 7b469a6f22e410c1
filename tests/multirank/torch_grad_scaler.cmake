kolo_test(multirank.grad_scaler TORCH LABELS multirank torch unsanitized TIMEOUT 120 LINK kolo_torch_device SOURCES
  torch_device/grad_scaler_test.cpp)

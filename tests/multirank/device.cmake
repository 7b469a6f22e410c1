kolo_test(multirank.device LABELS multirank TIMEOUT 180 LINK kolo_simulated_device SOURCES
  device/gradient_test.cpp device/failure_test.cpp device/mutation_test.cpp)

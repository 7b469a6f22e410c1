kolo_test(unit.device LABELS unit LINK kolo_simulated_device SOURCES device/solo_communicator_test.cpp)

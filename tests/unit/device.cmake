kolo_test(unit.device LABELS unit LINK kolo_test_doubles kolo_simulated_device SOURCES device/share_test.cpp device/solo_communicator_test.cpp device/step_launcher_test.cpp)

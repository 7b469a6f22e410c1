kolo_test(multirank.device LABELS multirank TIMEOUT 180 PROCESSORS 2 COST 15 LINK kolo_simulated_device SOURCES
  device/choice_test.cpp device/gradient_test.cpp device/failure_test.cpp device/mutation_test.cpp device/staged_test.cpp
  device/two_reducers_test.cpp device/memory_test.cpp device/solo_test.cpp device/step_times_test.cpp)
if(KOLO_HAVE_NCCL)
  target_sources(multirank.device PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device/nccl_only_test.cpp ${CMAKE_CURRENT_LIST_DIR}/device/death_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/device/between_calls_test.cpp)
  kolo_test(multirank.device_shares LABELS multirank TIMEOUT 180 LINK kolo_simulated_device SOURCES
    device/share_failure_test.cpp device/share_mutation_test.cpp device/share_pieces_test.cpp device/share_test.cpp
    device/share_values_test.cpp)
endif()

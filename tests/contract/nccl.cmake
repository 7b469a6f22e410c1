if(KOLO_HAVE_NCCL)
  kolo_test(contract.device_communicators SOURCES ${CMAKE_CURRENT_LIST_DIR}/device_communicators_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/device_adapter.cpp ${CMAKE_CURRENT_LIST_DIR}/communicator_contract.cpp
    ${CMAKE_CURRENT_LIST_DIR}/scattered_contract.cpp LABELS contract LINK kolo_simulated_device TIMEOUT 300 PROCESSORS 2 COST 10)
endif()

if(KOLO_HAVE_NCCL)
  kolo_test(unit.nccl SOURCES ${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_communicator_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/nccl_errors_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/comm_handle_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/lane_end_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/simulated_registration_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/network_warning_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/simulated_nccl_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/agree_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/library_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nccl/network_test.cpp
    LABELS unit LINK kolo_simulated_device TIMEOUT 300)
endif()

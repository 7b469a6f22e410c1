kolo_test(multirank.engine LABELS multirank TIMEOUT 180 COST 22 SOURCES
  engine/average_bound_test.cpp engine/named_test.cpp engine/unnamed_test.cpp engine/gradient_test.cpp engine/failure_test.cpp engine/failing_again_test.cpp engine/direct_calls_test.cpp engine/chaos_test.cpp engine/idle_test.cpp engine/stalls_test.cpp engine/memory_test.cpp engine/moments_test.cpp engine/several_reducers_test.cpp engine/solo_test.cpp engine/in_place_test.cpp engine/on_reduced_test.cpp engine/notices_test.cpp engine/polling_test.cpp engine/shutdown_test.cpp)
if(KOLO_HAVE_MPI)
  # Between emulated hosts: tests/support/hosts.
  add_executable(multirank.network ${CMAKE_CURRENT_LIST_DIR}/engine/network_test.cpp)
  target_include_directories(multirank.network PRIVATE ${kolo_SOURCE_DIR}/src ${kolo_SOURCE_DIR} ${kolo_SOURCE_DIR}/tests)
  target_link_libraries(multirank.network PRIVATE kolo_internal kolo_test_mpi_main)
  kolo_test_compilation(multirank.network)
  foreach(network tcp mpi)
    add_test(NAME multirank.network.${network}
      COMMAND ${kolo_SOURCE_DIR}/tests/support/hosts/once 2 1gbit 2 $<TARGET_FILE:multirank.network>)
    set_tests_properties(multirank.network.${network} PROPERTIES ENVIRONMENT KOLO_NETWORK=${network}
      LABELS "multirank;mpi" SKIP_RETURN_CODE 77 TIMEOUT 120 COST 9)
  endforeach()
endif()
kolo_test(multirank.engine_processes LABELS multirank PROCESSES 2 3 4 TIMEOUT 120 SOURCES engine/processes_test.cpp)

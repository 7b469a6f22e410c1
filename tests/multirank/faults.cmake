kolo_test(multirank.faulty_engine LABELS faults multirank TIMEOUT 120 LINK kolo_test_doubles
  SOURCES faults/faulty_engine_test.cpp)
if(KOLO_HAVE_MPI)
  kolo_test(multirank.faults LABELS faults multirank PROCESSES 2 3 4 TIMEOUT 120 LINK MPI::MPI_CXX SOURCES
    faults/mismatch_test.cpp faults/ends_test.cpp)
endif()
if(KOLO_HAVE_MPI)
  # Between emulated hosts: there, a message leaves only while a thread of its rank drives the transport.
  foreach(network tcp mpi)
    add_test(NAME multirank.faults.${network}
      COMMAND ${kolo_SOURCE_DIR}/tests/support/hosts/once 2 1gbit 4 $<TARGET_FILE:multirank.faults>
        --gtest_filter=RankFailure*:Shutdown*)
    set_tests_properties(multirank.faults.${network} PROPERTIES ENVIRONMENT KOLO_NETWORK=${network}
      LABELS "faults;multirank;mpi" SKIP_RETURN_CODE 77 TIMEOUT 120 COST 8)
  endforeach()
endif()

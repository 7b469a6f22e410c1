kolo_test(multirank.faulty_engine LABELS faults multirank TIMEOUT 120 SOURCES faults/faulty_engine_test.cpp)
if(KOLO_HAVE_MPI)
  kolo_test(multirank.faults LABELS faults multirank PROCESSES 2 3 4 TIMEOUT 120 LINK MPI::MPI_CXX SOURCES
    faults/mismatch_test.cpp faults/ends_test.cpp)
endif()

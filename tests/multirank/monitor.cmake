if(KOLO_HAVE_MPI)
  kolo_test(multirank.monitor LABELS multirank PROCESSES 2 4 TIMEOUT 120 COST 21 PROCESSORS 1 LINK MPI::MPI_CXX SOURCES
    monitor/monitor_test.cpp)
endif()

kolo_test(transport_threads_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/transport_threads_test.cpp LABELS contract PROCESSORS 2
  LINK kolo_test_doubles)
if(KOLO_HAVE_MPI)
  kolo_test(transport_processes_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/transport_processes_test.cpp LABELS contract
    PROCESSES 2 4 LINK MPI::MPI_CXX)
endif()

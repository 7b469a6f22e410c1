# 4 GiB of shared memory for a while, and what MPI takes beside it: alone.
if(KOLO_HAVE_MPI)
  kolo_test(multirank.large_counts LABELS multirank slow PROCESSES 2 TIMEOUT 180 SOURCES large_counts_test.cpp)
  set_tests_properties(multirank.large_counts.np2 PROPERTIES RUN_SERIAL TRUE)
endif()

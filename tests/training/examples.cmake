# The small examples, run as a reader would run them. They check their own results.
foreach(example first_program 01_hello_ranks 02_train_mlp 03_accumulate_and_clip)
  if(TARGET ${example} AND KOLO_HAVE_MPI)
    add_test(NAME example.${example} COMMAND ${KOLO_MPIRUN} -np 2 $<TARGET_FILE:${example}>)
    set_tests_properties(example.${example} PROPERTIES TIMEOUT 120 LABELS "examples;mpi" PROCESSORS 2)
  endif()
endforeach()

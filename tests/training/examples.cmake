# The small examples, run as a reader would run them. They check their own results.
foreach(example first_program 01_hello_ranks 02_train_mlp 03_accumulate_and_clip)
  if(TARGET ${example} AND KOLO_HAVE_MPI)
    add_test(NAME example.${example} COMMAND ${KOLO_MPIRUN} -np 2 $<TARGET_FILE:${example}>)
    set_tests_properties(example.${example} PROPERTIES TIMEOUT 120 LABELS "examples;mpi" PROCESSORS 2)
  endif()
endforeach()

# Its steps, recorded.
if(TARGET first_program AND KOLO_HAVE_MPI)
  add_test(NAME training.recorded_processes COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/recorded_processes.py
    $<TARGET_FILE:first_program> ${KOLO_MPIRUN})
  set_tests_properties(training.recorded_processes PROPERTIES TIMEOUT 300 LABELS "training;mpi" PROCESSORS 2 COST 15)
endif()

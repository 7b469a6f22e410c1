# kolo perf on the command line: what it refuses, what it says of itself, and a sweep of all algorithms, verified.
if(TARGET kolo_program)
  add_test(NAME unit.perf_sizes COMMAND kolo_program perf allreduce --min 4M --max 1M)
  set_tests_properties(unit.perf_sizes PROPERTIES LABELS unit TIMEOUT 60
    PASS_REGULAR_EXPRESSION "--min 4194304 is more than --max 1048576")
  add_test(NAME unit.perf_help COMMAND kolo_program perf allreduce --help)
  set_tests_properties(unit.perf_help PROPERTIES LABELS unit TIMEOUT 60
    PASS_REGULAR_EXPRESSION "auto, direct, ring, tree, halving_doubling, recursive_doubling, hierarchical"
    FAIL_REGULAR_EXPRESSION "->|, mpi")
  add_test(NAME unit.perf_negative COMMAND kolo_program perf allreduce --max=-1)
  set_tests_properties(unit.perf_negative PROPERTIES LABELS unit TIMEOUT 60 PASS_REGULAR_EXPRESSION "-1 is negative")
  if(KOLO_HAVE_MPI)
    # Rank 0 alone opens the file, and what it finds is every rank's error: nobody waits for it.
    foreach(command allreduce engine sweep)
      add_test(NAME unit.perf_json.${command}
        COMMAND ${KOLO_MPIRUN} -np 2 $<TARGET_FILE:kolo_program> perf ${command} --json ${CMAKE_CURRENT_BINARY_DIR}/none/x)
      set_tests_properties(unit.perf_json.${command} PROPERTIES LABELS "unit;mpi" TIMEOUT 20 PROCESSORS 2
        PASS_REGULAR_EXPRESSION "--json: cannot write")
    endforeach()
    # f16 ends at 65504: a product is verified all the same.
    add_test(NAME unit.perf_product
      COMMAND ${KOLO_MPIRUN} -np 6 $<TARGET_FILE:kolo_program> perf allreduce --op product --dtype f16 --max 4K --iterations 2)
    set_tests_properties(unit.perf_product PROPERTIES LABELS "unit;mpi" TIMEOUT 60 PROCESSORS 2)
    foreach(count 2 3)
      add_test(NAME unit.perf_sweep.np${count}
        COMMAND ${KOLO_MPIRUN} -np ${count} $<TARGET_FILE:kolo_program> perf sweep --max 1M --iterations 2)
      set_tests_properties(unit.perf_sweep.np${count} PROPERTIES LABELS "unit;mpi" TIMEOUT 60 PROCESSORS 2
        PASS_REGULAR_EXPRESSION "(worst choice: [0-9.]+ of the best, at [0-9]+ bytes|the choice is the best at every size); 0 elements wrong")
    endforeach()
  endif()
endif()

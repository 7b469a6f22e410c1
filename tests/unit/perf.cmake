# kolo perf on the command line: what it refuses, what it says of itself, and a sweep of all algorithms, verified.
if(TARGET kolo_program)
  add_test(NAME unit.perf_sizes COMMAND kolo_program perf allreduce --min 4M --max 1M)
  set_tests_properties(unit.perf_sizes PROPERTIES LABELS unit TIMEOUT 60
    PASS_REGULAR_EXPRESSION "--min 4194304 is more than --max 1048576")
  add_test(NAME unit.perf_help COMMAND kolo_program perf allreduce --help)
  set_tests_properties(unit.perf_help PROPERTIES LABELS unit TIMEOUT 60
    PASS_REGULAR_EXPRESSION "auto, direct, ring, tree, halving_doubling, recursive_doubling, hierarchical, mpi"
    FAIL_REGULAR_EXPRESSION "->")
  if(KOLO_HAVE_MPI)
    foreach(count 2 3)
      add_test(NAME unit.perf_sweep.np${count}
        COMMAND ${KOLO_MPIRUN} -np ${count} $<TARGET_FILE:kolo_program> perf sweep --max 1M --iterations 2)
      set_tests_properties(unit.perf_sweep.np${count} PROPERTIES LABELS "unit;mpi" TIMEOUT 60 PROCESSORS 2
        PASS_REGULAR_EXPRESSION "(worst choice: [0-9.]+ of the best, at [0-9]+ bytes|the choice is the best at every size); 0 elements wrong")
    endforeach()
  endif()
endif()

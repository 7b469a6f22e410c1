if(KOLO_HAVE_MPI AND KOLO_HAVE_TORCH)
  add_executable(optimizer_peer_killed ${CMAKE_CURRENT_LIST_DIR}/optimizer_peer_killed.cpp)
  target_include_directories(optimizer_peer_killed PRIVATE ${kolo_SOURCE_DIR}/tests)
  target_link_libraries(optimizer_peer_killed PRIVATE kolo_torch kolo)
  kolo_test_compilation(optimizer_peer_killed TORCH)
  add_test(NAME faults.optimizer_peer_killed.np3 COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/peer_killed.py
    $<TARGET_FILE:optimizer_peer_killed> 3 all
    before_backward,in_backward,before_step,shared_before_backward,shared_in_backward,shared_before_step ${KOLO_MPIRUN})
  set_tests_properties(faults.optimizer_peer_killed.np3 PROPERTIES TIMEOUT 300 LABELS "faults;torch;mpi" PROCESSORS 2 COST 20
    RESOURCE_LOCK killed_jobs)
  if(KOLO_SANITIZE MATCHES address)
    # Full stacks, which only the leaks of Open MPI need, would make these 18 jobs take minutes.
    set_tests_properties(faults.optimizer_peer_killed.np3 PROPERTIES
      ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=string_append::fast_unwind_on_malloc=1:detect_leaks=0")
  endif()
endif()

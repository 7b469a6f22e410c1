# A rank is killed in the middle of something. One launch of mpirun for each point and each rank, of 0.4 s.
if(KOLO_HAVE_MPI)
  add_executable(engine_peer_killed ${CMAKE_CURRENT_LIST_DIR}/engine_peer_killed.cpp)
  target_include_directories(engine_peer_killed PRIVATE ${kolo_SOURCE_DIR}/tests)
  target_link_libraries(engine_peer_killed PRIVATE kolo kolo_warnings)
  foreach(ranks 2 3 4)
    add_test(NAME faults.peer_killed.np${ranks} COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/peer_killed.py
      $<TARGET_FILE:engine_peer_killed> ${ranks} all
      named,named_running,first_round,before_contribute,before_finish,inside_round,communicator,communicator_running
      ${KOLO_MPIRUN})
    set_tests_properties(faults.peer_killed.np${ranks} PROPERTIES TIMEOUT 300 LABELS "faults;mpi;slow" PROCESSORS 2 COST 15
      RESOURCE_LOCK killed_jobs)
  endforeach()
endif()

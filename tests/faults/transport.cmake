# mpirun returns nothing of use when a rank was killed: what the survivor says decides.
if(KOLO_HAVE_MPI)
  add_executable(transport_peer_killed ${CMAKE_CURRENT_LIST_DIR}/transport_peer_killed.cpp)
  target_include_directories(transport_peer_killed PRIVATE ${kolo_SOURCE_DIR}/src ${kolo_SOURCE_DIR}/tests)
  target_link_libraries(transport_peer_killed PRIVATE kolo_internal kolo_warnings)
  foreach(kind shm tcp)
    add_test(NAME faults.transport_peer_killed.${kind}
      COMMAND ${KOLO_MPIRUN} --enable-recovery -np 2 $<TARGET_FILE:transport_peer_killed> ${kind})
    set_tests_properties(faults.transport_peer_killed.${kind} PROPERTIES
      TIMEOUT 60 LABELS "faults;mpi" RESOURCE_LOCK killed_jobs PASS_REGULAR_EXPRESSION "rank 0 saw it in time")
  endforeach()
endif()

# Losses on one host and on several (emulated), of every kind: what each live rank sees, and that the survivors go on.
if(KOLO_HAVE_MPI)
  add_executable(world_faults ${CMAKE_CURRENT_LIST_DIR}/world_faults.cpp)
  target_include_directories(world_faults PRIVATE ${kolo_SOURCE_DIR}/tests)
  target_link_libraries(world_faults PRIVATE kolo kolo_warnings)
  add_test(NAME faults.world COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/world_faults.py
    $<TARGET_FILE:world_faults> one ${KOLO_MPIRUN})
  add_test(NAME faults.world_on_hosts COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/world_faults.py
    $<TARGET_FILE:world_faults> hosts)
  set_tests_properties(faults.world faults.world_on_hosts PROPERTIES
    TIMEOUT 600 LABELS "faults;mpi" SKIP_RETURN_CODE 77 RESOURCE_LOCK killed_jobs)
  set_tests_properties(faults.world PROPERTIES PROCESSORS 2)
  set_tests_properties(faults.world_on_hosts PROPERTIES COST 60)
  set_property(TEST faults.world_on_hosts APPEND PROPERTY LABELS slow)
endif()

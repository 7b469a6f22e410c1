# Processes on several hosts (emulated: script/cluster): between two of one rank each everything goes over the network;
# with four ranks on three hosts, kolo perf verifies what the library as a whole chooses there.
if(KOLO_HAVE_MPI)
  set(once ${kolo_SOURCE_DIR}/tests/support/hosts/once)
  add_test(NAME contract.two_hosts
    COMMAND ${once} 2 1gbit 2 $<TARGET_FILE:contract.communicator_processes> --gtest_filter=CommunicatorOfProcesses.*)
  # Two hosts of two, and 2 + 1 + 1: the hierarchical communicator.
  foreach(hosts 2 3)
    add_test(NAME contract.hierarchical_on_${hosts}_hosts
      COMMAND ${once} ${hosts} 10gbit 4 $<TARGET_FILE:contract.hierarchical_processes> --gtest_filter=*/real)
    set_tests_properties(contract.hierarchical_on_${hosts}_hosts PROPERTIES
      LABELS "contract;mpi" SKIP_RETURN_CODE 77 TIMEOUT 120)
  endforeach()
  set_tests_properties(contract.two_hosts PROPERTIES
    LABELS "contract;mpi" SKIP_RETURN_CODE 77 TIMEOUT 120)
  if(NOT TARGET kolo_program)
    return()
  endif()
  foreach(network tcp mpi)
    add_test(NAME contract.three_hosts.${network}
      COMMAND ${once} 3 1gbit 4 $<TARGET_FILE:kolo_program> perf allreduce --min 8 --max 1M --iterations 3)
    set_tests_properties(contract.three_hosts.${network} PROPERTIES ENVIRONMENT KOLO_NETWORK=${network}
      LABELS "contract;mpi" SKIP_RETURN_CODE 77 TIMEOUT 120)
  endforeach()
endif()

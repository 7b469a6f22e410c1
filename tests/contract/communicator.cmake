kolo_test(contract.communicator_threads SOURCES ${CMAKE_CURRENT_LIST_DIR}/communicator_threads_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/communicator_contract.cpp ${CMAKE_CURRENT_LIST_DIR}/scattered_contract.cpp LABELS contract TIMEOUT 300 PROCESSORS 2 COST 10)
kolo_test(contract.hierarchical_threads SOURCES ${CMAKE_CURRENT_LIST_DIR}/hierarchical_threads_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/communicator_contract.cpp ${CMAKE_CURRENT_LIST_DIR}/scattered_contract.cpp LABELS contract TIMEOUT 300 PROCESSORS 2 COST 10)
if(KOLO_HAVE_MPI)
  kolo_test(contract.communicator_processes SOURCES ${CMAKE_CURRENT_LIST_DIR}/communicator_processes_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/communicator_contract.cpp ${CMAKE_CURRENT_LIST_DIR}/scattered_contract.cpp LABELS contract PROCESSES 2 4 TIMEOUT 300)
  kolo_test(contract.hierarchical_processes SOURCES ${CMAKE_CURRENT_LIST_DIR}/hierarchical_processes_test.cpp
    ${CMAKE_CURRENT_LIST_DIR}/communicator_contract.cpp ${CMAKE_CURRENT_LIST_DIR}/scattered_contract.cpp LABELS contract PROCESSES 3 4 TIMEOUT 300)
endif()

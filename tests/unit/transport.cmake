set(folder ${CMAKE_CURRENT_LIST_DIR}/transport)
kolo_test(unit.transport LABELS unit LINK kolo_test_doubles SOURCES
  ${folder}/available_memory_test.cpp ${folder}/faulty_test.cpp ${folder}/inbox_test.cpp ${folder}/inproc_test.cpp
  ${folder}/process_shared_memory_test.cpp ${folder}/slot_place_test.cpp ${folder}/congestion_control_test.cpp ${folder}/tcp_test.cpp ${folder}/tcp_leave_test.cpp
  ${folder}/tcp_outgoing_test.cpp
  ${folder}/transport_bootstrap_test.cpp)

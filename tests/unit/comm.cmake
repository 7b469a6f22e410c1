kolo_test(unit.comm SOURCES ${CMAKE_CURRENT_LIST_DIR}/comm/communicator_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/comm/faulty_transport_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/comm/select_test.cpp LABELS unit)

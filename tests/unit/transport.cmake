kolo_test(unit.transport SOURCES ${CMAKE_CURRENT_LIST_DIR}/transport/faulty_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/transport/inproc_test.cpp LABELS unit)

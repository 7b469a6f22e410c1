kolo_test(unit.transport SOURCES ${CMAKE_CURRENT_LIST_DIR}/transport/faulty_test.cpp LABELS unit)

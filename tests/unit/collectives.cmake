kolo_test(unit.collectives SOURCES ${CMAKE_CURRENT_LIST_DIR}/collectives/operations_test.cpp LABELS unit)

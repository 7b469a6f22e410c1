kolo_test(unit.collectives LINK kolo_test_doubles SOURCES ${CMAKE_CURRENT_LIST_DIR}/collectives/operations_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collectives/fill_way_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collectives/scattering_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collectives/network_allreduce_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collectives/network_broadcast_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/collectives/network_traffic_test.cpp LABELS unit)

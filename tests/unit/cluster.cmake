kolo_test(cluster_test LABELS unit SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/cluster/cluster_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/descriptors_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/doubling_gather_test.cpp)
kolo_test(monitor_test LABELS unit SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/cluster/membership_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/host_address_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/monitor_address_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/monitor_links_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/monitor_messages_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/cluster/monitor_tree_test.cpp)

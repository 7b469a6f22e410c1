kolo_test(cluster_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cluster/cluster_test.cpp LABELS unit)

kolo_test(unit.comm LINK kolo_test_doubles SOURCES ${CMAKE_CURRENT_LIST_DIR}/comm/communicator_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/comm/cost_model_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/comm/faulty_transport_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/comm/probe_link_test.cpp
  ${CMAKE_CURRENT_LIST_DIR}/comm/select_test.cpp LABELS unit)
kolo_test(unit.hierarchical SOURCES ${CMAKE_CURRENT_LIST_DIR}/comm/hierarchical_test.cpp LABELS unit
  LINK kolo_test_doubles)

set(folder ${CMAKE_CURRENT_LIST_DIR}/cuda)
# Two libraries that a loader has to refuse.
foreach(twin old_runtime incomplete_runtime)
  add_library(kolo_${twin} MODULE ${folder}/${twin}.cpp)
  set_target_properties(kolo_${twin} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/runtimes)
  target_link_libraries(kolo_${twin} PRIVATE kolo_warnings)
endforeach()
kolo_test(unit.cuda LABELS unit LINK kolo_simulated_device SOURCES
  ${folder}/identity_test.cpp ${folder}/kernel_test.cpp ${folder}/load_runtime_test.cpp ${folder}/memory_test.cpp ${folder}/runtime_test.cpp
  ${folder}/stream_test.cpp)
target_compile_definitions(unit.cuda PRIVATE KOLO_TEST_RUNTIMES="${CMAKE_CURRENT_BINARY_DIR}/runtimes")
add_dependencies(unit.cuda kolo_old_runtime kolo_incomplete_runtime)

# That the simulated device finds what it is there to find.
kolo_test(unit.simulated_device LABELS unit LINK kolo_simulated_device SOURCES
  ${folder}/kolo_kernels_test.cpp ${folder}/simulated_calls_test.cpp ${folder}/simulated_deadlocks_test.cpp ${folder}/simulated_memory_test.cpp
  ${folder}/simulated_order_test.cpp ${folder}/simulated_schedules_test.cpp ${folder}/simulated_time_test.cpp)

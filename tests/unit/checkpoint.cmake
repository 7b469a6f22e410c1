kolo_test(unit.checkpoint SOURCES checkpoint/safetensors_test.cpp checkpoint/checkpoint_directory_test.cpp checkpoint/directory_lock_test.cpp checkpoint/manifest_test.cpp checkpoint/parts_test.cpp LABELS unit)
# Another implementation reads what ours wrote.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  add_executable(write_safetensors_sample checkpoint/write_safetensors_sample.cpp)
  target_link_libraries(write_safetensors_sample PRIVATE kolo kolo_warnings)
  add_test(NAME unit.checkpoint.python
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/checkpoint/read_safetensors.py
      $<TARGET_FILE:write_safetensors_sample> ${CMAKE_CURRENT_BINARY_DIR}/sample.safetensors)
  set_tests_properties(unit.checkpoint.python PROPERTIES LABELS unit TIMEOUT 60)
endif()

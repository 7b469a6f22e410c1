kolo_test(unit.telemetry LABELS unit SOURCES telemetry/counters_test.cpp telemetry/device_marks_test.cpp telemetry/logger_test.cpp
  telemetry/recorder_test.cpp telemetry/step_account_test.cpp telemetry/step_log_test.cpp telemetry/timeline_test.cpp)

if(KOLO_NVTX_INCLUDE AND NOT KOLO_WITH_CUDA STREQUAL OFF)
  add_library(kolo_range_listener MODULE telemetry/range_listener.cpp)
  target_include_directories(kolo_range_listener SYSTEM PRIVATE ${KOLO_NVTX_INCLUDE})
  target_include_directories(kolo_range_listener PRIVATE ${kolo_SOURCE_DIR}/tests)
  target_link_libraries(kolo_range_listener PRIVATE kolo_warnings)
  kolo_test(unit.telemetry.range SOURCES telemetry/range_test.cpp LABELS unit)
  add_dependencies(unit.telemetry.range kolo_range_listener)
  target_compile_definitions(unit.telemetry.range PRIVATE KOLO_RANGE_LISTENER="$<TARGET_FILE:kolo_range_listener>")
  set_property(TEST unit.telemetry.range APPEND PROPERTY
    ENVIRONMENT "NVTX_INJECTION64_PATH=$<TARGET_FILE:kolo_range_listener>")
endif()

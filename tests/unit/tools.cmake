if(TARGET kolo_run)
  kolo_test(unit.tools SOURCES tools/run_line_test.cpp tools/run_wire_test.cpp tools/run_lines_test.cpp
    tools/run_job_test.cpp tools/perf_data_test.cpp tools/perf_times_test.cpp
    ${kolo_SOURCE_DIR}/tools/perf_data.cpp LINK kolo_run LABELS unit)
  kolo_test(unit.scaling SOURCES tools/scaling_advice_test.cpp tools/scaling_log_test.cpp
    tools/scaling_peers_test.cpp tools/scaling_plan_test.cpp tools/scaling_report_test.cpp
    tools/scaling_results_test.cpp tools/scaling_statistics_test.cpp LINK kolo_scaling LABELS unit)
  # clang-tidy takes one of its two command lines, and knows no headers that GCC has compiled.
  set_source_files_properties(${kolo_SOURCE_DIR}/tools/perf_data.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endif()
if(TARGET kolo_trace)
  kolo_test(unit.tools.trace SOURCES tools/trace_event_test.cpp tools/trace_clock_test.cpp tools/trace_merge_test.cpp
    LINK kolo_trace nlohmann_json::nlohmann_json LABELS unit)
endif()

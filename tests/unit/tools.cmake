if(TARGET kolo_run)
  kolo_test(unit.tools SOURCES tools/run_line_test.cpp tools/run_wire_test.cpp tools/run_lines_test.cpp
    tools/run_job_test.cpp LINK kolo_run LABELS unit)
endif()

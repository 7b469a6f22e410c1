kolo_test(unit.telemetry SOURCES telemetry/counters_test.cpp telemetry/logger_test.cpp LABELS unit)

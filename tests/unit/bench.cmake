kolo_test(unit.bench SOURCES bench/gpu_idle_test.cpp ${kolo_SOURCE_DIR}/bench/gpu_idle.cpp LABELS unit)
target_include_directories(unit.bench PRIVATE ${kolo_SOURCE_DIR}/bench)

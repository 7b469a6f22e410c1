kolo_test(multirank.engine LABELS multirank TIMEOUT 180 SOURCES
  engine/named_test.cpp engine/gradient_test.cpp engine/failure_test.cpp engine/chaos_test.cpp engine/idle_test.cpp)
kolo_test(multirank.engine_processes LABELS multirank PROCESSES 2 3 4 TIMEOUT 120 SOURCES engine/processes_test.cpp)

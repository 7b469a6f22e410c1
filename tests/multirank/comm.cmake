kolo_test(multirank.measured_costs LABELS multirank TIMEOUT 120 SOURCES comm/measured_costs_test.cpp)

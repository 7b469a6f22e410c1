kolo_test(unit.kernels SOURCES kernels/reduce_test.cpp kernels/scale_copy_test.cpp LABELS unit)

kolo_test(training.equivalence TORCH SOURCES equivalence_test.cpp LABELS training torch TIMEOUT 300)
kolo_test(training.model TORCH SOURCES model_test.cpp LABELS training torch TIMEOUT 300)

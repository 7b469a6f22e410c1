kolo_test(training.equivalence TORCH SOURCES equivalence_test.cpp LABELS training torch TIMEOUT 300)
if(KOLO_HAVE_MPI)
  kolo_test(training.equivalence_processes TORCH SOURCES equivalence_processes_test.cpp LABELS training torch
    PROCESSES 2 3 4 TIMEOUT 120 LINK MPI::MPI_CXX)
  kolo_test(training.faults TORCH SOURCES faults_processes_test.cpp LABELS faults training torch
    PROCESSES 2 3 TIMEOUT 120 LINK MPI::MPI_CXX)
endif()
kolo_test(training.shared_gradients TORCH SOURCES shared_gradients_test.cpp LABELS training torch TIMEOUT 120)
kolo_test(training.overlap_update TORCH SOURCES overlap_update_test.cpp LABELS training torch TIMEOUT 120)
kolo_test(training.several_optimizers TORCH SOURCES several_optimizers_test.cpp LABELS training torch TIMEOUT 120)
kolo_test(training.checks TORCH SOURCES checks_test.cpp LABELS training torch TIMEOUT 120)
kolo_test(training.frozen TORCH SOURCES frozen_test.cpp LABELS training torch TIMEOUT 120)
kolo_test(training.model TORCH SOURCES model_test.cpp LABELS training torch TIMEOUT 300)
kolo_test(training.odd_tensors TORCH SOURCES odd_tensors_test.cpp LABELS training torch TIMEOUT 300)

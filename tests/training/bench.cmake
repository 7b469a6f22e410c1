# The step benchmark, as short as it gets: that it runs and writes what docs/formats.md says. Its figures mean nothing here.
if(TARGET imagenet_trainer AND KOLO_HAVE_MPI)
  add_test(NAME bench.step COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/bench_run.py ${kolo_SOURCE_DIR}/bench/step.py
    $<TARGET_FILE:imagenet_resnet50>)
  set_tests_properties(bench.step PROPERTIES TIMEOUT 300 LABELS "training;mpi" PROCESSORS 2 COST 15)
endif()

# The peers of `kolo scaling` learn the same as the trainer.
if(TARGET resnet50_after_backward)
  add_test(NAME bench.peers COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/peers_run.py ${kolo_SOURCE_DIR}/bench/peers/ddp.py
    $<TARGET_FILE:resnet50_after_backward> $<TARGET_FILE:imagenet_resnet50> ${KOLO_MPIRUN})
  set_tests_properties(bench.peers PROPERTIES TIMEOUT 300 LABELS "training;mpi" PROCESSORS 2 COST 15)
endif()

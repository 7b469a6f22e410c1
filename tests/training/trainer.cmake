if(TARGET imagenet_trainer)
  kolo_test(trainer_report_test SOURCES trainer_report_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)
  kolo_test(trainer_loss_watch_test SOURCES trainer_loss_watch_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)
  kolo_test(trainer_options_test SOURCES trainer_options_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)
  kolo_test(trainer_failure_test SOURCES trainer_failure_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)
  kolo_test(trainer_data_test SOURCES trainer_data_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)
  kolo_test(trainer_schedule_test SOURCES trainer_schedule_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)
  kolo_test(trainer_model_test SOURCES trainer_model_test.cpp LINK imagenet_trainer kolo_data_internal LABELS training TORCH)

  kolo_test(trainer_device_test SOURCES trainer_device_test.cpp trainer_source_test.cpp LINK imagenet_trainer kolo_data_internal kolo_torch_device LABELS training
    torch TORCH)
  if(KOLO_HAVE_MPI)
    kolo_test(trainer_amp_test SOURCES trainer_amp_test.cpp LINK imagenet_trainer kolo_data_internal MPI::MPI_CXX LABELS training torch
      PROCESSES 2 4 TORCH)
    set_property(TEST trainer_amp_test.np4 APPEND PROPERTY LABELS slow)
  endif()

  # The program as a user starts it: JSON lines, resuming, odd files.
  foreach(case json resume batch folder damaged classes changed ranks alone amp device nan lines streams bytes lock)
    add_test(NAME trainer.${case} COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/trainer_run.py ${case}
      $<TARGET_FILE:imagenet_resnet50> ${KOLO_MPIRUN})
    set_tests_properties(trainer.${case} PROPERTIES TIMEOUT 300 LABELS "training;mpi" PROCESSORS 2 COST 15)
  endforeach()
  set_property(TEST trainer.amp APPEND PROPERTY LABELS slow)
endif()

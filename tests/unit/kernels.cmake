kolo_test(unit.kernels SOURCES kernels/reduce_test.cpp kernels/scale_copy_test.cpp LABELS unit)
# Device code, run on the host, and compared with the host's own updates.
kolo_test(unit.kernels.device LABELS unit
  SOURCES kernels/adamw_test.cpp kernels/device_image_test.cpp kernels/device_run_test.cpp kernels/find_nonfinite_test.cpp
    kernels/images_test.cpp kernels/pack_test.cpp kernels/run_on_host.cpp kernels/scale_test.cpp kernels/sgd_test.cpp kernels/table_layout_test.cpp
    ${kolo_SOURCE_DIR}/src/torch/adamw_update.cpp ${kolo_SOURCE_DIR}/src/torch/sgd_update.cpp)
set_source_files_properties(kernels/device_image_test.cpp PROPERTIES
  COMPILE_DEFINITIONS "KOLO_DEVICE_IMAGE_FILE=\"$<$<BOOL:${KOLO_HAVE_CUDA}>:${KOLO_DEVICE_IMAGE_FILE}>\"")
# Launches, on the simulated device.
kolo_test(unit.kernels.launch LABELS unit
  SOURCES kernels/launch_results_test.cpp kernels/launch_test.cpp kernels/simulated_launch_device.cpp kernels/try_out_test.cpp
    kernels/tensor_table_test.cpp ${kolo_SOURCE_DIR}/src/torch/adamw_update.cpp ${kolo_SOURCE_DIR}/src/torch/sgd_update.cpp
  LINK kolo_simulated_device)
if(KOLO_HAVE_CUDA)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME unit.kernels.image COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/kernels/check_device_image.py
    ${KOLO_DEVICE_IMAGE_FILE} ${kolo_SOURCE_DIR}/kernels/device_kernel_list.h ${KOLO_CUDA_ARCHITECTURES})
  set_tests_properties(unit.kernels.image PROPERTIES LABELS unit TIMEOUT 60)
endif()

kolo_test(unit.data SOURCES data/crop_test.cpp data/decoder_test.cpp data/resample_test.cpp data/fingerprint_test.cpp
  data/image_folder_test.cpp data/jpeg_windows_test.cpp data/jpeg_windows.cpp data/loader_test.cpp data/odd_files_test.cpp
  data/pillow_values_test.cpp data/synth_test.cpp data/make_images.cpp LABELS unit LINK kolo_data_internal JPEG::JPEG PNG::PNG)
target_compile_definitions(unit.data PRIVATE KOLO_PILLOW_VALUES="${CMAKE_CURRENT_LIST_DIR}/data/pillow_values.txt")
kolo_test(unit.all_jpeg_windows LABELS unit slow TIMEOUT 600 COST 60 LINK kolo_data_internal JPEG::JPEG PNG::PNG
  SOURCES data/all_jpeg_windows_test.cpp data/jpeg_windows.cpp data/make_images.cpp)

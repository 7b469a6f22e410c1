kolo_test(unit.data SOURCES data/crop_test.cpp data/decoder_test.cpp data/resample_test.cpp data/image_folder_test.cpp
  data/loader_test.cpp data/synth_test.cpp data/make_images.cpp LABELS unit LINK JPEG::JPEG PNG::PNG)

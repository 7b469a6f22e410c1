kolo_test(unit.engine LABELS unit TIMEOUT 120 LINK kolo_test_doubles SOURCES
  engine/matcher_test.cpp engine/message_check_test.cpp engine/named_executor_test.cpp engine/negotiation_test.cpp engine/plan_test.cpp engine/ready_list_test.cpp engine/round_history_test.cpp engine/control_channel_test.cpp engine/signature_test.cpp engine/slab_pool_test.cpp engine/strides_test.cpp engine/codec_test.cpp engine/gradient_arena_test.cpp engine/failure_places_test.cpp)
# The codec beside protobuf's own code. Its prefix must not be LibTorch's, which has headers of the same name.
find_program(KOLO_PROTOC protoc NO_CMAKE_PREFIX_PATH REQUIRED)
find_path(KOLO_PROTOBUF_INCLUDE google/protobuf/message_lite.h NO_CMAKE_PREFIX_PATH REQUIRED)
find_library(KOLO_PROTOBUF_LIBRARY protobuf-lite NO_CMAKE_PREFIX_PATH REQUIRED)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/control.pb.cc ${generated}/control.pb.h
  COMMAND ${KOLO_PROTOC} --cpp_out=lite:${generated} -I ${kolo_SOURCE_DIR}/src/engine control.proto
  DEPENDS ${kolo_SOURCE_DIR}/src/engine/control.proto
  VERBATIM)
kolo_test(unit.codec LABELS unit SOURCES engine/codec_protobuf_test.cpp ${kolo_SOURCE_DIR}/tests/fuzz/envelopes.cpp
  ${generated}/control.pb.cc)
target_include_directories(unit.codec PRIVATE ${generated})
target_include_directories(unit.codec SYSTEM PRIVATE ${KOLO_PROTOBUF_INCLUDE})
target_link_libraries(unit.codec PRIVATE ${KOLO_PROTOBUF_LIBRARY})
set_source_files_properties(${generated}/control.pb.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
kolo_test(unit.share_bucket LABELS unit LINK kolo_test_doubles kolo_simulated_device SOURCES engine/share_bucket_test.cpp)

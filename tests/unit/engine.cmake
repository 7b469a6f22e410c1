kolo_test(unit.engine LABELS unit TIMEOUT 120 SOURCES
  engine/matcher_test.cpp engine/message_check_test.cpp engine/named_executor_test.cpp engine/negotiation_test.cpp engine/plan_test.cpp engine/ready_list_test.cpp engine/round_history_test.cpp engine/control_channel_test.cpp engine/signature_test.cpp engine/slab_pool_test.cpp engine/strides_test.cpp engine/codec_test.cpp engine/gradient_arena_test.cpp engine/failure_places_test.cpp)
kolo_test(unit.share_bucket LABELS unit LINK kolo_simulated_device SOURCES engine/share_bucket_test.cpp)

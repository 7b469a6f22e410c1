kolo_test(unit.torch TORCH SOURCES torch/gradient_binding_test.cpp torch/gradient_allocator_test.cpp torch/fused_sgd_test.cpp LABELS unit torch)
kolo_test(unit.sampler SOURCES runtime/distributed_sampler_test.cpp LABELS unit)

#pragma once
// The GPUs that these tests run on. A program that has none fails before its first test (gpu.cpp).
#include <string>

#include "cuda/kernel.h"
#include "cuda/runtime.h"

namespace kolo::test {

// Of this process, found when it is first asked for. Throws BackendError where there is no CUDA runtime.
[[nodiscard]] const cuda::RuntimePtr& gpu_runtime();
// Device code of kolo's kernels for it.
[[nodiscard]] const void* gpu_image();
// Why the tests cannot run here; empty: they can.
[[nodiscard]] std::string why_no_gpu();

}  // namespace kolo::test

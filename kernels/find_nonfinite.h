#pragma once
// Whether reduced gradients may be used: one look at a bucket, whose answer stays on the device.
#include <cstddef>
#include <cstdint>

#include "cuda/kernel.h"
#include "kolo/stream.h"
#include "kolo/types.h"

namespace kolo::kernels {

struct FloatRun {
  const void* data = nullptr;  // device memory at any address
  std::size_t count = 0;
  DType dtype = DType::f32;
};

// Enqueued in `stream`: `flag`, in device memory, becomes 1 if any element is infinite or no number; else it stays as
// it is. So one flag, zeroed before (cuda::fill_zero), serves all buckets of a step. Throws UsageError for a type that
// is no float.
void find_nonfinite(cuda::KernelImage& image, const FloatRun& run, std::uint32_t* flag, Stream stream);

}  // namespace kolo::kernels

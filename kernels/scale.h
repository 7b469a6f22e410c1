#pragma once
// One run of floats on a device, multiplied in place: an average after a sum.
#include <cstddef>

#include "cuda/kernel.h"
#include "kolo/types.h"

namespace kolo::kernels {

struct ScaleRun {
  void* data = nullptr;  // device memory at any address
  std::size_t count = 0;
  DType dtype = DType::f32;
  double factor = 1.0;
};

// Enqueued in `stream`. Numbers as in kernels/scale_copy.h: in fp64 for f64, else in fp32 and rounded once. Throws
// UsageError for a type that is no float.
void scale(cuda::KernelImage& image, const ScaleRun& run, Stream stream);

}  // namespace kolo::kernels

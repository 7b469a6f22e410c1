#pragma once
// Two runs of floats on a device, added up in the first of them: a step of an allreduce whose messages go from device
// to device.
#include <cstddef>

#include "cuda/kernel.h"
#include "kolo/stream.h"
#include "kolo/types.h"

namespace kolo::kernels {

// Device memory at any addresses; the two do not overlap.
struct Accumulation {
  void* sum = nullptr;
  const void* addend = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
};

// Enqueued in `stream`. Numbers as reduce() has them for a sum of two: in fp64 for f64, else in fp32 and rounded once.
// Throws UsageError for a type that is no float.
void accumulate(cuda::KernelImage& image, const Accumulation& run, Stream stream);

}  // namespace kolo::kernels

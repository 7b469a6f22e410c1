#pragma once
// The seam between the checked entry points (reduce_host.cpp, scale_copy_host.cpp) and the same loops compiled once for
// each instruction set (host_kernels_*.cpp). Plain data, so that those files instantiate nothing of the standard
// library.
#include <cstddef>

#include "kolo/types.h"

namespace kolo::kernels {

struct ReduceJob {
  const std::byte* const* inputs;
  std::byte* const* outputs;
  int input_count;
  int output_count;
  std::size_t count;
  DType dtype;
  ReduceOp op;
  int divisor;
  double prescale;
  double postscale;
  bool streaming;
  int near;  // -1: nothing is fetched ahead
};

struct ScaleCopyJob {
  const std::byte* in;
  std::byte* out;
  DType in_type;
  DType out_type;
  std::size_t count;
  std::size_t element_bytes;  // of in_type
  double scale;
  bool streaming;
};

struct HostKernels {
  const char* name;  // "portable", "avx2", "avx512"
  void (*reduce)(const ReduceJob& job);
  void (*scale_copy)(const ScaleCopyJob& job);
};

// Null where this build or this processor has no such instructions. Results are the same bits from each of them.
[[nodiscard]] const HostKernels* portable_kernels() noexcept;
[[nodiscard]] const HostKernels* avx2_kernels() noexcept;
[[nodiscard]] const HostKernels* avx512_kernels() noexcept;
// The fastest of them here.
[[nodiscard]] const HostKernels& host_kernels() noexcept;

}  // namespace kolo::kernels

#pragma once
// How many threads a kernel is launched with: enough to keep the memory busy, and no more blocks than run at once.
#include <algorithm>
#include <cstddef>

#include "cuda/runtime.h"
#include "kernels/block_shape.h"

namespace kolo::kernels {

// Blocks that run at once on `device`.
[[nodiscard]] inline unsigned resident_blocks(const cuda::Runtime& runtime, int device) {
  const int multiprocessors = runtime.attribute(cuda::Attribute::multiprocessors, device);
  return static_cast<unsigned>(std::max(multiprocessors, 1)) * kBlocksPerMultiprocessor;
}

// Blocks for one run of `bytes` that the whole grid shares: none without work, each with 16 KiB at least.
[[nodiscard]] inline unsigned blocks_for(std::size_t bytes, unsigned resident) noexcept {
  constexpr std::size_t kBytesOfABlock = 64 * kThreads;
  return static_cast<unsigned>(std::min<std::size_t>((bytes + kBytesOfABlock - 1) / kBytesOfABlock, resident));
}

}  // namespace kolo::kernels

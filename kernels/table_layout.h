#pragma once
// How a table's chunks are cut. Plain arithmetic, without a device.
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/table_view.h"

namespace kolo::kernels {

// Where one tensor lies in its bucket, in elements. Tensors of no elements are fine.
struct TensorPlace {
  std::size_t offset = 0;
  std::size_t count = 0;
};

inline constexpr std::size_t kLargestChunk = 64 * 1024;  // bytes
inline constexpr std::size_t kSmallestChunk = 8 * 1024;

// Bytes of a chunk of a bucket of `bytes` that `blocks` blocks share: a power of two, so large that what a chunk costs
// beside its bytes does not matter, and so small that every block gets eight or more where there is enough for that.
[[nodiscard]] std::size_t chunk_bytes_for(std::size_t bytes, unsigned blocks) noexcept;

// In the order of the bucket. Throws UsageError for more tensors or chunks than 32 bits count.
[[nodiscard]] std::vector<Chunk> cut_chunks(std::span<const TensorPlace> places, std::size_t chunk_elements);

}  // namespace kolo::kernels

#include "kernels/table_layout.h"

#include <algorithm>
#include <limits>

#include "kolo/error.h"

namespace kolo::kernels {
namespace {

constexpr std::size_t kChunksOfABlock = 8;
constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::size_t chunk_bytes_for(std::size_t bytes, unsigned blocks) noexcept {
  std::size_t chunk = kLargestChunk;
  while (chunk > kSmallestChunk && bytes / chunk < kChunksOfABlock * blocks) chunk /= 2;
  return chunk;
}

std::vector<Chunk> cut_chunks(std::span<const TensorPlace> places, std::size_t chunk_elements) {
  if (places.size() > kMost || chunk_elements == 0 || chunk_elements > kMost) {
    throw UsageError("tensor table: " + std::to_string(places.size()) + " tensors in chunks of " +
                     std::to_string(chunk_elements) + " elements; both must fit in 32 bits");
  }
  std::size_t chunk_count = 0;
  for (const TensorPlace& place : places) chunk_count += (place.count + chunk_elements - 1) / chunk_elements;
  if (chunk_count > kMost) {
    throw UsageError("tensor table: " + std::to_string(chunk_count) + " chunks do not fit in 32 bits");
  }
  std::vector<Chunk> chunks;
  chunks.reserve(chunk_count);
  for (std::size_t tensor = 0; tensor < places.size(); ++tensor) {
    for (std::size_t first = 0; first < places[tensor].count; first += chunk_elements) {
      const std::size_t count = std::min(chunk_elements, places[tensor].count - first);
      chunks.push_back({first, static_cast<std::uint32_t>(tensor), static_cast<std::uint32_t>(count)});
    }
  }
  return chunks;
}

}  // namespace kolo::kernels

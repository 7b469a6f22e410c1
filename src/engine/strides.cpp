#include "kolo/spi/strides.h"

#include <algorithm>
#include <utility>

namespace kolo {
namespace {

bool has_elements(std::span<const std::int64_t> sizes) {
  return std::ranges::none_of(sizes, [](std::int64_t size) { return size == 0; });
}

// Wraps: sizes may come from a peer.
std::int64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t dim = sizes.size(); dim-- > 1;) {
    strides[dim - 1] = product(strides[dim], std::max<std::int64_t>(sizes[dim], 1));
  }
  return strides;
}

std::vector<std::int64_t> canonical_strides(std::span<const std::int64_t> sizes,
                                            std::span<const std::int64_t> strides) {
  if (strides.empty() || !has_elements(sizes)) return contiguous_strides(sizes);
  std::vector<std::int64_t> canonical(strides.begin(), strides.end());
  if (strides.size() != sizes.size()) return canonical;
  for (std::size_t dim = sizes.size(); dim-- > 0;) {
    if (sizes[dim] != 1) continue;
    canonical[dim] = dim + 1 == sizes.size() ? 1 : product(canonical[dim + 1], sizes[dim + 1]);
  }
  return canonical;
}

bool is_dense(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  if (strides.empty() || !has_elements(sizes)) return true;
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] != 1) dims.emplace_back(strides[dim], sizes[dim]);
  }
  std::ranges::sort(dims);
  std::int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected = product(expected, size);
  }
  return true;
}

}  // namespace kolo

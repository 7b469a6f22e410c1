#pragma once
// Strides of tensors, in elements, outermost dimension first.
//
//   const auto strides = kolo::contiguous_strides(std::vector<std::int64_t>{2, 3});  // {3, 1}
#include <cstdint>
#include <span>
#include <vector>

#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {

// The strides of a contiguous (row-major) tensor.
[[nodiscard]] std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes);

// The strides that kolo compares. Replaces strides that address no element (of dimensions of size 1, and of a tensor
// without elements), so that equal layouts have equal strides. Empty strides mean contiguous.
[[nodiscard]] std::vector<std::int64_t> canonical_strides(std::span<const std::int64_t> sizes,
                                                          std::span<const std::int64_t> strides);

// True if the elements fill one block of memory, in any order of the dimensions, without gaps or overlap.
// REQUIRES: as many strides as sizes, or none.
[[nodiscard]] bool is_dense(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

}  // namespace kolo

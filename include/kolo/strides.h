#pragma once
// Strides of tensors, in elements, outermost dimension first.
#include <cstdint>
#include <span>
#include <vector>

#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

// The strides of a contiguous (row-major) tensor.
[[nodiscard]] std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes);

// The strides that kolo compares: equal for two tensors of equal sizes exactly if each element is
// at the same place. Strides of dimensions of size 1, and all strides of a tensor without elements,
// are replaced by those that follow from other dimensions. Empty strides mean contiguous.
[[nodiscard]] std::vector<std::int64_t> canonical_strides(std::span<const std::int64_t> sizes,
                                                          std::span<const std::int64_t> strides);

// Whether the elements fill one block of memory, in any order of the dimensions, without gaps or overlap.
// REQUIRES: as many strides as sizes, or none.
[[nodiscard]] bool is_dense(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

}  // namespace kolo

#pragma once
// Strides of tensors, in elements, outermost dimension first.
#include <cstdint>
#include <span>
#include <vector>

namespace kolo {

// Of a tensor whose elements follow each other in the order of their indices.
[[nodiscard]] std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes);

// The form in which kolo compares strides. Two tensors of the same sizes have equal ones exactly if each element lies
// at the same place: strides of dimensions of size 1, and all strides of a tensor without elements, become those that
// follow from the other dimensions. Empty strides are contiguous ones.
[[nodiscard]] std::vector<std::int64_t> canonical_strides(std::span<const std::int64_t> sizes,
                                                          std::span<const std::int64_t> strides);

// Whether the elements fill one block of memory, in any order of the dimensions, without gaps or overlap.
// REQUIRES: as many strides as sizes, or none.
[[nodiscard]] bool is_dense(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

}  // namespace kolo

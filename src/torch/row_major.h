#pragma once
// The elements of a dense tensor in row-major order, and whether they are finite; for a thread that must not use
// LibTorch's thread pool.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kolo/types.h"

namespace kolo {

// Reorders `bytes`, whose element (i, j, ...) is at i * strides[0] + j * strides[1] + ..., in place. `scratch` keeps
// its memory.
void make_row_major(std::span<std::byte> bytes, std::size_t element, const std::vector<std::int64_t>& sizes,
                    const std::vector<std::int64_t>& strides, std::vector<std::byte>& scratch);

// True for integers.
[[nodiscard]] bool all_finite(std::span<const std::byte> bytes, DType dtype);

}  // namespace kolo

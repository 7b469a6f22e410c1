#pragma once
// Integers as 64-bit integers, for an average that must form its sum in 64 bits where partial sums leave the kernel.
#include <cstddef>
#include <cstdint>

#include "kolo/types.h"

namespace kolo::collectives {

// Integers shorter than 64 bits; boolean is none.
[[nodiscard]] bool can_widen(DType dtype) noexcept;
// Whether partial sums of such a reduction travel as 64-bit integers.
[[nodiscard]] inline bool needs_wide_sums(DType dtype, ReduceOp op) noexcept {
  return op == ReduceOp::average && can_widen(dtype);
}
void widen(const std::byte* from, DType dtype, std::size_t count, std::int64_t* to);
void narrow(const std::int64_t* from, DType dtype, std::size_t count, std::byte* to);

}  // namespace kolo::collectives

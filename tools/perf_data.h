#pragma once
// Inputs that differ by rank and by iteration, and what must come out: exact in every element type up to 16 ranks.
#include <cstddef>
#include <span>
#include <vector>

#include "kolo/types.h"

namespace kolo::tools {

// A block of elements that repeats through a buffer; no longer than the buffer, so that little data costs little.
class Pattern {
 public:
  // Elements before the block repeats; divides every power of two above it.
  static constexpr std::size_t kPeriod = 4096;

  // For arrays of up to `elements`.
  static Pattern input(DType dtype, std::size_t elements, Rank rank, int iteration);
  static Pattern reduced(DType dtype, std::size_t elements, ReduceOp op, int ranks, int iteration);

  // `first` is the number of the first element in the whole array.
  void fill(std::span<std::byte> data, std::size_t first = 0) const;
  // Elements of `data` that differ.
  [[nodiscard]] std::size_t count_wrong(std::span<const std::byte> data, std::size_t first = 0) const;

 private:
  Pattern(DType dtype, std::vector<std::byte> block) : dtype_(dtype), block_(std::move(block)) {}
  DType dtype_;
  std::vector<std::byte> block_;
};

}  // namespace kolo::tools

#pragma once
// Inputs that differ by rank and by iteration, and what must come out, to the bit: partial results are exact in every
// order. Sums and averages of bf16 are up to 64 ranks, those of f16 up to 512.
#include <cstddef>
#include <span>
#include <vector>

#include "kolo/types.h"

namespace kolo::tools {

struct Reduction {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 1;
};

// Throws UsageError for more ranks than the type can count: right results would look wrong.
void check_exact(const Reduction& reduction);

// A block of elements that repeats through a buffer; no longer than the buffer, so that little data costs little.
class Pattern {
 public:
  // Elements before the block repeats; divides every power of two above it.
  static constexpr std::size_t kPeriod = 4096;

  // For arrays of up to `elements`. What is moved, what is reduced, and what comes out of that.
  static Pattern input(DType dtype, std::size_t elements, Rank rank, int iteration);
  static Pattern operand(const Reduction& reduction, std::size_t elements, Rank rank, int iteration);
  static Pattern reduced(const Reduction& reduction, std::size_t elements, int iteration);

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

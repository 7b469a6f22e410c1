#pragma once
// Element-wise reduction of several inputs into several outputs: what the direct and ring algorithms run.
#include <cstddef>
#include <span>

#include "kolo/types.h"

namespace kolo::kernels {

struct ReduceArguments {
  std::span<const std::byte* const> inputs;  // at least one
  std::span<std::byte* const> outputs;       // every output receives the result; outputs may be inputs
  std::size_t count = 0;                     // elements
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;  // average: the sum divided by `divisor`
  int divisor = 1;              // > 1 only with average
  double prescale = 1.0;        // on each input; floating types only
  double postscale = 1.0;       // on the result
  bool streaming = false;       // non-temporal stores, fenced before returning
  int near = -1;                // other cores wrote last to all outputs but this one: those are fetched ahead
};

// The inputs are combined in their order, in fp32 for f32, f16 and bf16 (rounded once), fp64 for f64, 64-bit integers
// for an average of integers, and modulo 2^bits for other integers; so equal orders give equal bits, on every
// processor. A NaN in any input is the result. Any addresses; streaming needs outputs that lie alike within their
// 64-byte lines, and is ignored where they do not. Throws UsageError for a divisor or scales that the operation or type
// do not take.
void reduce(const ReduceArguments& arguments);

}  // namespace kolo::kernels

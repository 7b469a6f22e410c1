#include "collectives/reduction.h"

#include <unistd.h>

#include "kernels/scale_copy.h"

namespace kolo::collectives {

void combine(const Reduction& reduction, std::span<const std::byte* const> partials,
             std::span<std::byte* const> outputs, std::size_t count, const Reduction::Step& step) {
  kernels::ReduceArguments arguments;
  arguments.inputs = partials;
  arguments.outputs = outputs;
  arguments.count = count;
  arguments.dtype = reduction.dtype;
  arguments.op = reduction.op;
  arguments.postscale = step.last ? reduction.postscale : 1.0;
  if (reduction.op == ReduceOp::average) {
    const bool boolean = reduction.dtype == DType::boolean;
    arguments.op = boolean ? ReduceOp::min : step.last ? ReduceOp::average : ReduceOp::sum;
    arguments.divisor = step.last && !boolean ? step.ranks : 1;
  }
  arguments.streaming = step.streaming;
  kernels::reduce(arguments);
}

void prescale_in_place(const Reduction& reduction, std::byte* data, std::size_t count) {
  if (reduction.prescale == 1.0) return;
  kernels::scale_copy(data, reduction.dtype, data, reduction.dtype, count, reduction.prescale);
}

std::size_t last_level_cache_bytes() {
  constexpr std::size_t kFallback = std::size_t{32} << 20;
  static const std::size_t bytes = [] {  // a constant of the machine, not state
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long found = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (found > 0) return static_cast<std::size_t>(found);
#endif
    return kFallback;
  }();
  return bytes;
}

}  // namespace kolo::collectives

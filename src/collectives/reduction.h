#pragma once
// How elements are combined, and the cutting of arrays into slices: shared by all allreduce and reduce-scatter
// algorithms.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cache_line.h"
#include "kernels/reduce.h"
#include "kolo/spi/communicator.h"
#include "kolo/types.h"

namespace kolo::collectives {

using base::kCacheLine;
using base::whole_lines;

// Elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
};

// Part `index` of `parts` nearly equal parts; every part but the last begins and ends on a multiple of `grain`.
[[nodiscard]] inline Range part_of(std::size_t count, int parts, int index, std::size_t grain) {
  const std::size_t grains = (count + grain - 1) / grain;
  const std::size_t each = (grains + static_cast<std::size_t>(parts) - 1) / static_cast<std::size_t>(parts);
  const std::size_t begin = std::min(count, each * grain * static_cast<std::size_t>(index));
  return {begin, std::min(count, begin + each * grain)};
}

// Elements per cache line.
[[nodiscard]] inline std::size_t line_grain(DType dtype) { return kCacheLine / size_of(dtype); }

struct Reduction {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;

  // Where results go: past the caches, or with the lines of all outputs but `near` fetched ahead (kernels/reduce.h).
  struct Stores {
    bool streaming = false;
    int near = -1;
  };

  // One step of a reduction that happens in several.
  struct Step {
    bool last = false;  // what comes out is the result over all `ranks`
    int ranks = 1;
    bool streaming = false;
  };

  // Reduces all ranks' contributions at once.
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, std::size_t count,
           const Stores& stores) const {
    kernels::ReduceArguments arguments;
    arguments.inputs = inputs;
    arguments.outputs = outputs;
    arguments.count = count;
    arguments.dtype = dtype;
    arguments.op = op;
    arguments.divisor = op == ReduceOp::average ? static_cast<int>(inputs.size()) : 1;
    arguments.prescale = prescale;
    arguments.postscale = postscale;
    arguments.streaming = stores.streaming;
    arguments.near = stores.near;
    kernels::reduce(arguments);
  }
  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, std::size_t count) const {
    run(inputs, outputs, count, {});
  }
};

// Combines partial results into each of `outputs`, which may be among them. No prescale: each contribution got it
// before. In the last step an average is divided and everything postscaled.
void combine(const Reduction& reduction, std::span<const std::byte* const> partials,
             std::span<std::byte* const> outputs, std::size_t count, const Reduction::Step& step);
// The prescale, of a contribution that is combined in steps.
void prescale_in_place(const Reduction& reduction, std::byte* data, std::size_t count);

[[nodiscard]] inline Reduction reduction_of(const AllreduceOptions& options) {
  return {options.dtype, options.op, options.prescale, options.postscale};
}

// Bytes of the last-level cache: beyond it results are stored past the caches.
[[nodiscard]] std::size_t last_level_cache_bytes();

}  // namespace kolo::collectives

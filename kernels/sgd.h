#pragma once
// SGD over one bucket in one launch: gradients are read from the reduced bucket, weights and momenta stay where they
// are. It moves 20 bytes an element (18 with 16-bit gradients) where unpacking first would move 28.
#include <span>

#include "cuda/kernel.h"
#include "kernels/tensor_table.h"
#include "kernels/update_state.h"
#include "kolo/stream.h"

namespace kolo::kernels {

struct SgdStep {
  Gradients gradients;
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Enqueued in `stream`. `arrays`: the weights, and behind them, if momentum is not 0, the momenta; all fp32 and aligned
// to their elements. With g the gradient and g' = g + weight_decay * w, or g where weight_decay is 0:
//   m = first step ? g' : momentum * m + (1 - dampening) * g'      w -= lr * (nesterov ? g' + momentum * m : m)
// and without momentum w -= lr * g'. Every operation is rounded to fp32, in this order. The first step is the one that
// begin_update() counts as the first: momenta need no value before it. Throws UsageError for gradients of another type,
// a table of other columns, or addresses that are not aligned.
void update_sgd(cuda::KernelImage& image, TensorTable& table, std::span<void* const> arrays, const SgdStep& step,
                Stream stream);

}  // namespace kolo::kernels

#pragma once
// AdamW over one bucket in one launch, as kernels/sgd.h has it for SGD: 28 bytes an element (26).
#include <span>

#include "cuda/kernel.h"
#include "kernels/tensor_table.h"
#include "kernels/update_state.h"
#include "kolo/stream.h"

namespace kolo::kernels {

// The betas are begin_update()'s too.
struct AdamwStep {
  Gradients gradients;
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

// Enqueued in `stream`. `arrays`: the weights, behind them the first moments, behind them the second; all fp32, aligned
// to their elements, the moments zero before the first step. With g the gradient and t the step's number:
//   w *= 1 - lr * weight_decay
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g * g
//   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
// from left to right, every operation rounded to fp32; what depends on neither g, m, v nor w is formed in fp64 and
// rounded, but for lr / (...), a division in fp32. UsageError as for update_sgd().
void update_adamw(cuda::KernelImage& image, TensorTable& table, std::span<void* const> arrays, const AdamwStep& step,
                  Stream stream);

}  // namespace kolo::kernels

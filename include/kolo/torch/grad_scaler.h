#pragma once
// Dynamic loss scaling for fp16, as torch.amp.GradScaler, with one decision for all ranks.
//
//   kolo::GradScaler scaler(context);
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);       // only to clip or to look at gradients
//   torch::nn::utils::clip_grad_norm_(model->parameters(), 1);
//   scaler.step(optimizer);           // unscales, if unscale_() was not called
//   scaler.update();                  // once, after all optimizers have stepped
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>

#include "kolo/context.h"
#include "kolo/detail/export.h"
#include "kolo/torch/distributed_optimizer.h"

namespace KOLO_EXPORT kolo {

// Must be equal on all ranks.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // above 1; applied to the scale after growth_interval steps without overflow
  double backoff_factor = 0.5;  // between 0 and 1; applied to the scale after an overflow
  std::int64_t growth_interval = 2000;
};

// Multiplies the loss, so that small gradients survive fp16, and divides the gradients before they are used. If a
// gradient of any rank is infinite or NaN, all ranks skip the step and the scale gets smaller. Keep weights in fp32
// (autocast converts them): gradients of fp16 weights underflow again after unscaling.
//
// Several backward passes of one step need the same scale: call update() after the last.
//
// step() allreduces one overflow flag and waits for the GPU once.
//
// step_async() does not wait. If the optimizer is a FusedSGD or FusedAdamW on a GPU, the GPU itself skips the update
// after an overflow; the next scale() or state() then waits for the GPU, and may throw TimeoutError. For other
// optimizers step_async() is step().
//
// With a FusedSGD or FusedAdamW on a GPU, step() without unscale_() unscales during the update with identical results,
// and param.grad() stays scaled.
//
// If a call throws, the scaler discards the current step; the next step begins with scale(). Use from one thread. With
// a Context, step() and step_async() are collective, and so is unscale_() of a DistributedOptimizer. After the Context
// was destroyed, calls that need other ranks throw UsageError; load() works, and so does state() unless step_async()
// was the last step.
class GradScaler {
 public:
  explicit GradScaler(Context& context, const GradScalerOptions& options = {});
  explicit GradScaler(const GradScalerOptions& options = {});  // for one rank
  ~GradScaler();
  GradScaler(GradScaler&&) noexcept;
  GradScaler& operator=(GradScaler&&) noexcept;

  [[nodiscard]] at::Tensor scale(const at::Tensor& loss);

  // Divides the gradients by the scale, in place, and records whether all are finite, without waiting for a GPU. With a
  // DistributedOptimizer it calls synchronize() first. Throws UsageError on a second call for this optimizer before
  // update(), and for a sparse gradient.
  void unscale_(torch::optim::Optimizer& optimizer);

  // Returns true if the weights were updated: on all ranks or on none. At most one call for each optimizer between two
  // update() calls. Throws the errors of the optimizer's step().
  bool step(torch::optim::Optimizer& optimizer);

  // As step(), without waiting for the GPU. The optimizer's state (momenta, step counts) is valid after the next call
  // of the scaler's scale() or state(): call that state() before you save the optimizer. Throws UsageError if kolo's
  // kernels took the gradients of this optimizer's first step_async(), but cannot take those of this one.
  void step_async(DistributedOptimizer& optimizer);

  // Sets the scale of the next step. Throws UsageError without a step() since the last update().
  void update();

  // For checkpoints. Not collective; equal on all ranks. After a step_async(), state() waits for the GPU. After
  // TimeoutError, call it again.
  struct State {
    double scale = 0;
    std::int64_t good_steps = 0;  // without overflow since the scale last changed
  };
  [[nodiscard]] const State& state();
  // Throws UsageError for a scale that is not positive and finite, or a negative count.
  void load(const State& state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kolo

#pragma once
// What kolo's own optimizers have in common.
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kolo/export.h"
#include "kolo/optimizer_step.h"

namespace KOLO_EXPORT kolo {

class GradScaler;
class GradientBinding;
class OverflowVote;

// An optimizer that can leave its steps on a device to kolo's kernels, and takes a loss scale out of gradients in
// passing.
class FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;
  // Whether all gradients that are defined now, one at least, are updated by the launcher.
  [[nodiscard]] bool launches_all() const;
  // Enqueued in the current stream: `flag`, one fp32 on the device, becomes 1 if a gradient is infinite or no number.
  // REQUIRES: launches_all().
  void find_nonfinite(const at::Tensor& flag);
  // What step() multiplies gradients by before it uses them; they stay as they are.
  void set_gradient_scale(double scale) noexcept { gradient_scale_ = scale; }
  // What is kept for a weight from step to step; empty before its first one.
  [[nodiscard]] virtual std::vector<at::Tensor> kept_for(const at::Tensor& weight) const = 0;

 protected:
  FusedOptimizer() = default;

  // --- by DistributedOptimizer and GradScaler, in the course of a step ---

  // DistributedOptimizer gives it one, and takes it back when it is detached. Null: none, as in the beginning.
  void set_launcher(std::shared_ptr<StepLauncher> launcher) noexcept { launcher_ = std::move(launcher); }
  // One fp32 on the launcher's device, or null: the device leaves a step() out where it finds it not to be 0. Such a
  // step() throws UsageError where it has a tensor that the launcher does not take.
  void set_skip(const float* skip) noexcept { skip_ = skip; }
  // What the next step() does to `weight`, at once, with its gradient and its group's options as they are now; that
  // step() leaves it out. In the host's memory. Nothing for a tensor that is not the optimizer's or has no gradient,
  // nor where the order of updates matters: for one that is there twice, or whose storage is another's too.
  void update_early(const at::Tensor& weight);
  // There will be no such step(): the next one leaves nothing out.
  void forget_early() noexcept { early_.clear(); }
  // The device has left the last step() out: what it noted (first momenta, the number of steps) is taken back.
  virtual void undo() = 0;
  // As it was given. Values that it reads go before it.
  [[nodiscard]] const std::shared_ptr<StepLauncher>& shared_launcher() const noexcept { return launcher_; }

  // --- for step() ---

  [[nodiscard]] StepLauncher* launcher() const noexcept { return launcher_.get(); }
  [[nodiscard]] double gradient_scale() const noexcept { return gradient_scale_; }
  [[nodiscard]] const float* skip() const noexcept { return skip_; }
  // What step() does: all that is due.
  void update_all();
  // Whether step() has something to do for it: it has a gradient, and was not updated early.
  [[nodiscard]] bool is_due(const at::Tensor& weight) const;
  // What the closure of a step() returns, run with gradients; undefined where there is none.
  [[nodiscard]] static at::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure);

 private:
  friend GradScaler;
  friend GradientBinding;
  friend OverflowVote;
  struct Early {
    std::size_t group = 0;
    std::size_t index = 0;  // in the group
    bool alone = true;      // its memory is no other's
    bool updated = false;
  };
  void find_places();

  [[nodiscard]] virtual const torch::optim::Optimizer& optimizer() const noexcept = 0;
  // The parameters [from, to) of the group, those that are due.
  virtual void update(std::size_t group, std::size_t from, std::size_t to) = 0;

  // Of all parameters from the first early update on, until step(); else empty.
  std::unordered_map<const void*, Early> early_;
  std::shared_ptr<StepLauncher> launcher_;
  double gradient_scale_ = 1;
  const float* skip_ = nullptr;
};

}  // namespace kolo

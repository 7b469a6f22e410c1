#pragma once
// Base of fused optimizers, with the hooks that DistributedOptimizer and GradScaler call. Applications use FusedSGD and
// FusedAdamW (kolo/torch/fused_optimizers.h). A further one begins like this:
//
//   class FusedLion : public torch::optim::Optimizer, public kolo::FusedOptimizer {};
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/spi/optimizer_step.h"

namespace KOLO_EXPORT kolo {

class GradScaler;
class GradientBinding;
class OverflowVote;

// Updates weights on a GPU by kolo's kernels, and can unscale gradients during the update.
class FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;
  // True if at least one gradient exists and kolo's kernels support every gradient.
  [[nodiscard]] bool launches_all() const;
  // Enqueued in the current stream: sets `flag`, one fp32 on the device, to 1 if a gradient is infinite or NaN.
  // REQUIRES: launches_all().
  void find_nonfinite(const at::Tensor& flag);
  // step() multiplies gradients by this factor, without writing them.
  void set_gradient_scale(double scale) noexcept { gradient_scale_ = scale; }
  // The optimizer-state tensors of a weight; empty before its first step.
  [[nodiscard]] virtual std::vector<at::Tensor> kept_for(const at::Tensor& weight) const = 0;

 protected:
  FusedOptimizer() = default;

  // --- for DistributedOptimizer and GradScaler, during a step ---

  // DistributedOptimizer sets the launcher and resets it to null on detach().
  void set_launcher(std::shared_ptr<StepLauncher> launcher) noexcept { launcher_ = std::move(launcher); }
  // One fp32 on the launcher's device, or null. If it is not 0, the device skips the step. If `skip` is set, step()
  // throws UsageError for a tensor that kolo's kernels do not support.
  void set_skip(const float* skip) noexcept { skip_ = skip; }
  // Updates one weight in CPU memory before step(), which then skips it. Does nothing for a tensor that is not the
  // optimizer's, has no gradient, occurs twice or shares its storage.
  void update_early(const at::Tensor& weight);
  // Discards the marks of early updates if step() is cancelled.
  void forget_early() noexcept { early_.clear(); }
  // Reverts the state of the last step() (first momenta, step counts), because the device skipped it.
  virtual void undo() = 0;
  // Destroy its DeviceScalarFutures before the launcher.
  [[nodiscard]] const std::shared_ptr<StepLauncher>& shared_launcher() const noexcept { return launcher_; }

  // --- for step() ---

  [[nodiscard]] StepLauncher* launcher() const noexcept { return launcher_.get(); }
  [[nodiscard]] double gradient_scale() const noexcept { return gradient_scale_; }
  [[nodiscard]] const float* skip() const noexcept { return skip_; }
  // Updates all weights that are due.
  void update_all();
  // True if the weight has a gradient and was not updated early.
  [[nodiscard]] bool is_due(const at::Tensor& weight) const;
  // The loss that the closure returns, with gradients enabled; undefined without a closure.
  [[nodiscard]] static at::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure);

 private:
  friend GradScaler;
  friend GradientBinding;
  friend OverflowVote;
  struct Early {
    std::size_t group = 0;
    std::size_t index = 0;  // in the group
    bool alone = true;      // no other tensor shares its memory
    bool updated = false;
  };
  void find_places();

  [[nodiscard]] virtual const torch::optim::Optimizer& optimizer() const noexcept = 0;
  // Updates those of the parameters [from, to) of the group that are due.
  virtual void update(std::size_t group, std::size_t from, std::size_t to) = 0;

  // All parameters, from the first early update until step(); otherwise empty.
  std::unordered_map<const void*, Early> early_;
  std::shared_ptr<StepLauncher> launcher_;
  double gradient_scale_ = 1;
  const float* skip_ = nullptr;
};

}  // namespace kolo

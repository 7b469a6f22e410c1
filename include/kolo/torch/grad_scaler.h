#pragma once
// Dynamic loss scaling for fp16, as torch.amp.GradScaler does it, with one decision for all ranks.
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"
#include "kolo/optimizer_step.h"
#include "kolo/torch/distributed_optimizer.h"

namespace KOLO_EXPORT kolo {

class OverflowVote;

// Must be equal on all ranks.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // above 1: what the scale is multiplied by after growth_interval steps without overflow
  double backoff_factor = 0.5;  // between 0 and 1: by what after an overflow
  std::int64_t growth_interval = 2000;
};

// Multiplies the loss, so that small gradients survive fp16, and divides the gradients again before they are used. A
// step in which one of them is infinite or not a number is left out, on all ranks, and the scale gets smaller.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);       // only to clip or to look at gradients; it closes the round first
//   clip_grad_norm_(parameters, 1);   // of true gradients, the same on all ranks
//   scaler.step(optimizer);           // unscales if nobody has; see below
//   scaler.update();                  // once, when all optimizers have stepped
//
// Several backward passes of one step need the same scale: update() comes after the last. Weights are best kept in fp32
// (autocast makes fp16 of them): gradients of fp16 weights lose to underflow again what scaling saved.
//
// Where step() is left to unscale, and the optimizer is one of kolo's (FusedOptimizer) whose steps are launched on a
// device, gradients are only searched for what is not finite, and the scale is taken out within the update: the same
// weights to the bit, a pass over memory less, and param.grad() stays scaled. Everywhere else it is unscaled
// afterwards.
//
// The ranks decide together, by an allreduce of one flag in every step(). Gradients that kolo has reduced are alike on
// all ranks, and so would each rank's own decision be. But not all are: a parameter that is not in the optimizer's
// table when the round is reduced, gradients changed by hand on one rank, an optimizer that nothing reduces. There one
// rank would step and another not, and from then on the models differ without a word. What it costs: the check itself
// is part of the pass over memory that unscales; a device is waited for once a step, in step(), because the host has to
// know, which is no more than without ranks; then the flag goes round between the hosts, some microseconds, on
// the engine's named channel.
//
// step_async() does not wait for the device: where such an optimizer steps in a DistributedOptimizer, the device itself
// leaves the update out when a gradient of any rank is not finite, and the host learns of it when it needs the next
// scale, in scale() or state(). By then the next forward pass is enqueued, so the device never idles. The flags are
// summed over ranks as one more gradient, by what reduces gradients. Everywhere else it is step().
//
// After an error the next step begins anew: what was noted of a DistributedOptimizer's round that failed is forgotten
// with it.
//
// Use from one thread. Collective over a Context: step(), step_async(), and unscale_() of a DistributedOptimizer. Once
// the Context has been destroyed the scaler may be destroyed, load()ed and, unless step_async() came last, asked for
// its state(); what needs the other ranks throws UsageError.
class GradScaler {
 public:
  explicit GradScaler(Context& context, const GradScalerOptions& options = {}) : GradScaler(options, &context) {}
  // For ranks that train alone.
  explicit GradScaler(const GradScalerOptions& options = {}) : GradScaler(options, nullptr) {}
  ~GradScaler();
  GradScaler(GradScaler&&) noexcept;
  GradScaler& operator=(GradScaler&&) noexcept;

  [[nodiscard]] at::Tensor scale(const at::Tensor& loss);

  // Divides the gradients by the scale, in place, and notes whether all are finite, without waiting for a device. At
  // most once between two update(); throws UsageError otherwise, or for a sparse gradient. On a DistributedOptimizer
  // after synchronize(), which it calls: collective then.
  void unscale_(torch::optim::Optimizer& optimizer);

  // Whether the weights were updated: on all ranks or on none. Once between two update(). Throws what the optimizer's
  // step() throws.
  bool step(torch::optim::Optimizer& optimizer);

  // As step(), for a host that goes on before the device has come to it. What the optimizer keeps (momenta, the number
  // of steps) is right after the next scale() or state(): call state() before you save it. Throws UsageError where
  // kolo's kernels took all gradients in the first such step, and do not now.
  void step_async(DistributedOptimizer& optimizer);

  // The scale of the next step. Throws UsageError when no step() came before.
  void update();

  // What a checkpoint has to keep. The same on all ranks. After step_async() and update() it waits for the device:
  // TimeoutError where that takes longer than Config::timeout; it may be asked again.
  struct State {
    double scale = 0;
    std::int64_t good_steps = 0;  // without overflow since the scale last changed
  };
  [[nodiscard]] const State& state();
  // Throws UsageError for a scale that is not positive and finite, or a negative count.
  void load(const State& state);

 private:
  GradScaler(const GradScalerOptions& options, Context* context);
  struct Stage {
    bool unscaled = false, stepped = false;
    bool in_update = false;  // the update unscales
    // Of a DistributedOptimizer: how many had ended. Nothing where only the optimizer inside it has been unscaled.
    std::optional<std::uint64_t> round;
    std::vector<at::Tensor> overflows;  // of each device: not 0 where something was not finite
  };
  void unscale(torch::optim::Optimizer& optimizer, Stage& stage) const;
  [[nodiscard]] static bool search(torch::optim::Optimizer& optimizer, Stage& stage);
  template <class Step>
  void take(torch::optim::Optimizer& optimizer, const Step& step, const float* skip = nullptr);
  template <class Decision>
  auto or_forget(torch::optim::Optimizer& optimizer, const Decision& decision);
  [[nodiscard]] Context& context() const;
  // `of`: the DistributedOptimizer's name, or empty; threads of a rank ask for several at a time.
  [[nodiscard]] bool on_any_rank(bool here, const std::string& of) const;
  bool overflowed(const Stage& stage, const std::string& of) const;
  void close_round(DistributedOptimizer& optimizer);
  Stage& stage_of(torch::optim::Optimizer& optimizer);
  bool decide(torch::optim::Optimizer& optimizer, const std::string& of);
  [[nodiscard]] OverflowVote* vote_of(const DistributedOptimizer& distributed);
  void change_scale();
  [[nodiscard]] float wait_for(LateValue& value) const;
  void settle();

  GradScalerOptions options_;
  Context* context_;  // null: alone
  EngineLifetime lifetime_;
  State state_;
  std::map<const torch::optim::Optimizer*, Stage> stages_;  // since the last update()
  bool overflow_ = false;                                   // in one of them
  // How step_async() asks, by optimizer; null: as step() does. (Not by address: on some ranks another optimizer may get
  // that of one that is gone.)
  using Watched = std::weak_ptr<torch::optim::Optimizer>;
  std::map<Watched, std::unique_ptr<OverflowVote>, std::owner_less<Watched>> votes_;
  // Steps that the device decides on.
  struct Late {
    std::shared_ptr<StepLauncher> launcher;  // of the value
    std::unique_ptr<LateValue> overflow;
    Watched optimizer;
  };
  std::deque<Late> late_;
  bool late_update_ = false;  // update() came, and waits for them
};

}  // namespace kolo

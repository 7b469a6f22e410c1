#pragma once
// Data-parallel training around any torch optimizer. docs/gradients.md says what param.grad() is at each moment.
#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// What module.named_parameters() or named_buffers() returned.
[[nodiscard]] NamedTensors named_tensors(const torch::OrderedDict<std::string, at::Tensor>& tensors);

// Must be equal on all ranks.
struct DistributedOptions {
  ReduceOp op =
      ReduceOp::average;  // sum or average; an average divides by the world size, missing gradients count as zeros
  double prescale = 1.0;
  double postscale = 1.0;
  std::size_t bucket_bytes = 0;  // 0: from Config
  // Number of backward passes that accumulate into a gradient before its reduction. If zero_grad()
  // drops the gradient between passes, its count starts again.
  int passes_per_step = 1;
  // Gradients of at least `shared_from` bytes are made in memory of kolo's, which all ranks of a host have mapped, and
  // reduced where they lie instead of in a copy. On the CPU; all ranks on one host, or each on one of its own.
  // docs/gradients.md says what else differs.
  bool shared_gradients = false;
  std::size_t shared_from = 16 * 1024;
  // Whether the parameters of all ranks, and what kolo's optimizers and LibTorch's (but LBFGS) keep for them, are
  // compared bit by bit (a hash each) when gradients are first reduced, and again when their table has changed:
  // MismatchError names the ranks whose weights are not rank 0's.
  bool compare_weights = true;
  // Number of rounds between two comparisons of the weights, which find weights that drift apart. 0: no
  // periodic comparison. If weights are on a device, each comparison blocks the host until they are ready.
  // No effect with one rank or without compare_weights.
  int compare_weights_every = 1000;
  // step() updates each weight as soon as its gradient is reduced, while others are still on their way: the update
  // fills the wait for slower ranks and for the network, and the numbers are the same. For FusedSGD and FusedAdamW in
  // the host's memory, where step() closes the round (not after synchronize(), nor with a closure). What it costs: a
  // step() that throws may have updated some weights, on each rank others. So the first round after one that has failed
  // compares all weights and what the optimizer keeps for them, and throws MismatchError on all ranks until they are
  // alike again (docs/errors.md); which is why it needs compare_weights.
  bool overlap_update = false;
};

class GradientBinding;

// Reduces the gradients of an optimizer's parameters over all ranks while backward is still running.
//
//   DistributedOptimizer optimizer(context, sgd, model->named_parameters());
//   optimizer.zero_grad(); loss(model).backward(); optimizer.step();
//
// Not a torch::optim::Optimizer itself: schedules and checkpoints work on optimizer(), the one that was wrapped.
// Collective: constructor, step(), skip(), synchronize(). Use from one thread; destroy before the Context.
class DistributedOptimizer {
 public:
  // Every parameter of `optimizer` that requires a gradient must be named; a name may be there twice for one shared
  // tensor. Names of other tensors are ignored. On a device if they are there by now, one a rank. Throws
  // UsageError (no parameter requires a gradient, or a parameter is unnamed, sparse, complex, on a
  // second device or on an unsupported kind of device), MismatchError (ranks differ).
  DistributedOptimizer(Context& context, std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const NamedTensors& parameters, DistributedOptions options = {});
  DistributedOptimizer(Context& context, std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const torch::OrderedDict<std::string, at::Tensor>& parameters, DistributedOptions options = {})
      : DistributedOptimizer(context, std::move(optimizer), named_tensors(parameters), options) {}
  // Borrows an optimizer, which must live longer.
  DistributedOptimizer(Context& context, torch::optim::Optimizer& optimizer,
                       const torch::OrderedDict<std::string, at::Tensor>& parameters, DistributedOptions options = {})
      : DistributedOptimizer(context, std::shared_ptr<torch::optim::Optimizer>(&optimizer, [](auto*) {}),
                             named_tensors(parameters), options) {}
  // For a program with an Engine and no Context. The other constructors also compare thread count, CPU
  // capability and library versions, and rank 0 logs a warning if ranks differ, because results of LibTorch
  // then differ in their last bits. This one does not compare them: an Engine has no log.
  DistributedOptimizer(Engine& engine, std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const NamedTensors& parameters, DistributedOptions options = {});
  ~DistributedOptimizer();  // detach()
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Closes the round unless synchronize() just did, then updates the weights. With a closure: evaluates it as often as
  // the optimizer asks, reducing the gradients after each evaluation. The loss that comes back is this rank's own.
  // Throws what GradientReducer::finish throws, and UsageError for a gradient that was changed after it had been handed
  // over, one at a parameter that requires none, or after the Context's end; the weights are then as they were (but see
  // overlap_update).
  at::Tensor step(const torch::optim::Optimizer::LossClosure& closure = nullptr);
  // Closes the round: afterwards param.grad() is the reduced gradient on every rank, to be clipped or looked at before
  // step(). On a device: ready in the stream that is current here, as with step(), and the host waits for other hosts
  // only.
  void synchronize();
  // Of its rounds, as errors have it ("gradients/0"): the same on all ranks.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  // How many rounds have ended, by synchronize(), step(), skip() or a failure. 0 after detach().
  [[nodiscard]] std::uint64_t rounds() const noexcept;
  // Instead of step(): closes the round and leaves the weights as they are. Collective.
  void skip();
  void zero_grad(bool set_to_none = true);

  // Adds parameters later; they take part from the next step(). All ranks must do the same before the same step().
  void add_param_group(const torch::optim::OptimizerParamGroup& group, const NamedTensors& parameters);

  // While one lives, backward only adds up gradients on this rank.
  class NoSync {
   public:
    explicit NoSync(DistributedOptimizer& optimizer);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    std::shared_ptr<GradientBinding> binding_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // Takes the hooks off and copies gradients out of kolo's memory. Afterwards the model may be wrapped again, and this
  // object does nothing but hold the optimizer. Idempotent.
  void detach() noexcept;

  [[nodiscard]] torch::optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  [[nodiscard]] std::weak_ptr<torch::optim::Optimizer> watch_optimizer() const noexcept { return optimizer_; }

 private:
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<GradientBinding> binding_;  // shared with the hooks, which hold it weakly
  std::string name_;
};

}  // namespace kolo

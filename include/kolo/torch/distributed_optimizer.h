#pragma once
// Data-parallel training around any torch optimizer.
//
//   torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
//   kolo::DistributedOptimizer optimizer(context, sgd, model);
//   optimizer.zero_grad();
//   loss(model).backward();  // gradients are reduced while it runs
//   optimizer.step();        // waits for them, then updates the weights
//
// docs/gradients.md says what param.grad() is at each moment.
#include <torch/optim/optimizer.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"
#include "kolo/torch/broadcast.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

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
class ParamGroupSync;

// A torch optimizer whose step() uses the gradients of all ranks. Schedulers, torch::save, torch::load and functions
// that take a torch::optim::Optimizer& work on it as on the optimizer that it wraps.
//
// Both have parameter groups. A learning rate, another option or a parameter that is changed in one of them is copied
// to the other by the next call of step(), save(), param_groups() or optimizer(). Of an optimizer that is not one of
// LibTorch's or kolo's only the learning rate is copied. state() is that of the wrapped optimizer; through a
// torch::optim::Optimizer& it is empty.
//
// Collective: constructor, step(), skip(), synchronize(). Use from one thread; destroy before the Context.
class DistributedOptimizer : public torch::optim::Optimizer {
 public:
  // `optimizer`: a torch::optim::Optimizer&, which must outlive this object; or one to own: a std::shared_ptr, a
  // std::unique_ptr, or an optimizer by value. `model`: see parameters_of(). Every parameter of `optimizer` that
  // requires a gradient must have a name there; two names may mean one shared tensor. Names of other tensors are
  // ignored. If parameters are to be on a device, move them there before.
  //
  // Throws UsageError (no parameter requires a gradient, or a parameter is unnamed, sparse, complex, on a
  // second device or on an unsupported kind of device; no optimizer; a DistributedOptimizer), MismatchError (ranks
  // differ). If thread counts, CPU capabilities or library versions differ, rank 0 logs a warning, because
  // results of LibTorch then differ in their last bits.
  template <class OptimizerOrPointer, class Model = NamedTensors>
  DistributedOptimizer(Context& context, OptimizerOrPointer&& optimizer, const Model& model,
                       DistributedOptions options = {})
      : DistributedOptimizer(
            context, Wrapped{shared(std::forward<OptimizerOrPointer>(optimizer)), parameters_of(model)}, options) {}
  // For a program with an Engine and no Context. Environments are not compared: an Engine has no log.
  DistributedOptimizer(Engine& engine, std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const NamedTensors& parameters, DistributedOptions options = {});
  ~DistributedOptimizer() override;  // detach()
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Closes the round unless synchronize() just did, then updates the weights. With a closure: evaluates it as often as
  // the optimizer asks, reducing the gradients after each evaluation. The loss that comes back is this rank's own.
  // Throws what GradientReducer::finish throws, and UsageError for a gradient that was changed after it had been handed
  // over, one at a parameter that requires none, an option that has two new values, or after the Context's end; the
  // weights are then as they were (but see overlap_update).
  at::Tensor step(LossClosure closure = nullptr) override;
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

  // Adds parameters later; they take part from the next step(). All ranks must do the same before the same step(). A
  // parameter that has no name in `parameters` is named by its place in the groups.
  void add_param_group(const torch::optim::OptimizerParamGroup& group, const NamedTensors& parameters = {});
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups();
  [[nodiscard]] const std::vector<torch::optim::OptimizerParamGroup>& param_groups() const;
  [[nodiscard]] auto& state() noexcept { return optimizer_->state(); }
  [[nodiscard]] torch::optim::OptimizerOptions& defaults() noexcept { return optimizer_->defaults(); }

  // The wrapped optimizer's, so that a checkpoint of one loads into the other.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

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

  [[nodiscard]] torch::optim::Optimizer& optimizer();
  [[nodiscard]] std::weak_ptr<torch::optim::Optimizer> watch_optimizer() const noexcept { return optimizer_; }

 private:
  struct Wrapped {
    std::shared_ptr<torch::optim::Optimizer> optimizer;
    NamedTensors parameters;
  };
  DistributedOptimizer(Context& context, Wrapped&& wrapped, DistributedOptions options);

  template <class OptimizerOrPointer>
  static std::shared_ptr<torch::optim::Optimizer> shared(OptimizerOrPointer&& optimizer) {
    using Type = std::remove_cvref_t<OptimizerOrPointer>;
    if constexpr (std::convertible_to<OptimizerOrPointer&&, std::shared_ptr<torch::optim::Optimizer>>) {
      return std::forward<OptimizerOrPointer>(optimizer);
    } else if constexpr (std::convertible_to<OptimizerOrPointer&&, torch::optim::Optimizer&>) {
      return std::shared_ptr<torch::optim::Optimizer>(&optimizer, [](auto*) {});  // borrowed
    } else if constexpr (std::derived_from<Type, torch::optim::Optimizer> && std::move_constructible<Type> &&
                         !std::is_const_v<std::remove_reference_t<OptimizerOrPointer>>) {
      return std::make_shared<Type>(std::forward<OptimizerOrPointer>(optimizer));
    } else {
      static_assert(sizeof(Type) == 0,
                    "kolo: the arguments are (context, optimizer, model): pass the optimizer as a "
                    "torch::optim::Optimizer&, a std::shared_ptr or std::unique_ptr (moved), or by value");
    }
  }

  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<GradientBinding> binding_;  // shared with the hooks, which hold it weakly
  std::unique_ptr<ParamGroupSync> groups_;
  std::string name_;
};

}  // namespace kolo

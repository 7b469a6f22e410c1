#pragma once
// Data-parallel training around any torch optimizer.
//
//   kolo::broadcast_parameters(context, model);  // all ranks start with the weights of rank 0
//   torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
//   kolo::DistributedOptimizer optimizer(context, sgd, model);
//   optimizer.zero_grad();
//   loss(model).backward();  // gradients are reduced while it runs
//   optimizer.step();        // waits for them, then updates the weights
//
// The reduction of all gradients of one step is a round; step() or synchronize() closes it. docs/gradients.md says what
// param.grad() is at each moment.
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
#include "kolo/detail/export.h"
#include "kolo/torch/broadcast.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// Must be equal on all ranks.
struct DistributedOptions {
  // sum or average. An average divides by the world size; a missing gradient counts as zeros.
  ReduceOp op = ReduceOp::average;
  double prescale = 1.0;
  double postscale = 1.0;
  std::size_t bucket_bytes = 0;  // 0: from Config
  // Number of backward passes whose gradients are added before the reduction; divide the loss by it for an average. If
  // zero_grad() drops a gradient between passes, the passes of its parameter are counted from 0 again.
  int passes_per_step = 1;
  // Allocates gradients of at least `shared_from` bytes in shared memory and reduces them in place, without a copy into
  // a bucket. For CPUs, with all ranks on one host or each rank on a host of its own; otherwise UsageError.
  // docs/gradients.md lists the other differences.
  bool shared_gradients = false;
  std::size_t shared_from = 16 * 1024;
  // In the first step, and in the first step after parameters were added, ranks compare hashes of weights and
  // optimizer state. MismatchError names the ranks that differ from rank 0. The state of LBFGS and of optimizers that
  // are not LibTorch's or kolo's is not compared.
  bool compare_weights = true;
  // Ranks also compare weights and state each time this number of rounds has passed; 0: never. If weights are on a
  // device, each comparison blocks the CPU until they are ready.
  // No effect with one rank or without compare_weights.
  int compare_weights_every = 1000;
  // step() updates each weight as soon as its gradient is reduced, while others are in flight. The results are the
  // same. Applies to FusedSGD and FusedAdamW on CPUs, in a step() without a closure and without synchronize() before
  // it. A step() that throws may have updated some weights, different ones on each rank. Later rounds then compare
  // weights and state, and throw MismatchError on all ranks until these are equal again (docs/errors.md). Requires
  // compare_weights.
  bool overlap_update = false;
};

class GradientBinding;
class ParamGroupSync;

// A torch optimizer whose step() uses the gradients of all ranks. Schedulers, torch::save, torch::load and functions
// that take a torch::optim::Optimizer& work on it as on the optimizer that it wraps.
//
// The wrapper and the wrapped optimizer each have parameter groups. If the program changes an option (learning rate) or
// replaces a parameter in one of them, the next step(), save(), param_groups() or optimizer() does so in the other.
// For third-party optimizers only the learning rate is copied. After a change in the wrapper, save the wrapper: the
// wrapped optimizer may not have it yet. LibTorch's state() and zero_grad() are not virtual: through a
// torch::optim::Optimizer&, state() is empty, and zero_grad() misses groups that were just added to the wrapped one.
//
// Collective: constructor, step(), skip(), synchronize(). Use from one thread; destroy before the Context.
class DistributedOptimizer : public torch::optim::Optimizer {
 public:
  // `optimizer`: a torch::optim::Optimizer&, which must outlive this object; or one to own: a std::shared_ptr, a
  // std::unique_ptr, or an optimizer by value. `model`: see parameters_of(). It must name
  // every parameter of `optimizer` that requires a gradient; a tensor may have several names, and names of other
  // tensors are ignored. Move parameters to their device before.
  //
  // Throws UsageError if no parameter requires a gradient; if a parameter is unnamed, sparse, complex, on a second
  // device or on an unsupported kind of device; and if `optimizer` is null or a DistributedOptimizer. Throws
  // MismatchError if the parameters or options of ranks differ. If thread counts, CPU capabilities or library versions
  // differ, rank 0 logs a warning, because results of LibTorch then differ in their last bits.
  template <class OptimizerOrPointer, class Model = NamedTensors>
  DistributedOptimizer(Context& context, OptimizerOrPointer&& optimizer, const Model& model,
                       DistributedOptions options = {})
      : DistributedOptimizer(
            context, Wrapped{shared(std::forward<OptimizerOrPointer>(optimizer)), parameters_of(model)}, options) {}
  // For bindings that hold an Engine. Does not compare thread counts, CPU capabilities and library versions.
  DistributedOptimizer(Engine& engine, std::shared_ptr<torch::optim::Optimizer> optimizer,
                       const NamedTensors& parameters, DistributedOptions options = {});
  ~DistributedOptimizer() override;  // detach()
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Waits for the reduced gradients, then updates the weights. With a closure: evaluates it as often as the optimizer
  // asks, and reduces the gradients after each evaluation. Returns the loss of this rank. Throws MismatchError,
  // PeerFailedError, PeerLostError and TimeoutError. Throws UsageError for a gradient that was changed between backward
  // and synchronize(), for a gradient of a parameter that requires none or was added after synchronize(), if rates or
  // other options of a group were changed differently in the wrapper and the wrapped optimizer, and after
  // Context::shutdown(). After an error the weights are unchanged, except with overlap_update.
  at::Tensor step(LossClosure closure = nullptr) override;
  // Waits for the reduction; param.grad() is then the reduced gradient, e.g. to clip it before step(). With NCCL,
  // synchronize() and step() make the current stream wait for the gradients; the CPU waits only until all ranks have
  // agreed that no rank has failed in this step.
  void synchronize();
  // The name of this optimizer in errors ("gradients/0"); equal on all ranks.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  // For diagnostics: the number of rounds that have ended, by synchronize(), step(), skip() or a failure. 0 after
  // detach().
  [[nodiscard]] std::uint64_t rounds() const noexcept;
  // Instead of step(): waits for the reduction and leaves the weights unchanged. Collective.
  void skip();
  void zero_grad(bool set_to_none = true);

  // Adds parameters later; they take part from the next step(). All ranks must do the same before the same step(). A
  // parameter that has no name in `parameters` is named by its place in the groups.
  void add_param_group(const torch::optim::OptimizerParamGroup& group, const NamedTensors& parameters = {});
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups();
  [[nodiscard]] const std::vector<torch::optim::OptimizerParamGroup>& param_groups() const;
  [[nodiscard]] auto& state() noexcept { return optimizer_->state(); }
  [[nodiscard]] torch::optim::OptimizerOptions& defaults() noexcept { return optimizer_->defaults(); }

  // Save and load the wrapped optimizer: checkpoints of the wrapper and of the plain optimizer are interchangeable.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // While a NoSync exists, backward reduces nothing, and passes_per_step counts no pass. Equal on all ranks.
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

  // Removes the hooks and copies gradients out of kolo's memory. Afterwards the model may be wrapped again, and step()
  // is that of the wrapped optimizer. Idempotent.
  void detach() noexcept;

  // The wrapped optimizer.
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
      torch::optim::Optimizer& borrowed = optimizer;
      return std::shared_ptr<torch::optim::Optimizer>(&borrowed, [](auto*) {});
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

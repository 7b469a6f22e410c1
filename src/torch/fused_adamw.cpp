#include "kolo/torch/fused_optimizers.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <string>
#include <utility>

#include "kolo/error.h"
#include "torch/group_update.h"
#include "torch/update_loops.h"

namespace kolo {
namespace {

using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

class AdamwRule final : public UpdateRule {
 public:
  explicit AdamwRule(const AdamWOptions& options)
      : terms_{options.lr(),  std::get<0>(options.betas()), std::get<1>(options.betas()),
               options.eps(), options.weight_decay(),       1} {}

  void launch(StepLauncher& launcher, const StepBatch& batch, std::int64_t number, Stream stream) const override {
    launcher.launch(batch, terms(number), stream);
  }
  void by_torch(const UpdatedList& list, std::int64_t number) const override {
    const at::Tensor step =
        at::full({}, static_cast<double>(number), list.weights.front().options().dtype(c10::kFloat));
    const std::vector<at::Tensor> steps(list.weights.size(), step);
    at::_fused_adamw_(list.weights, list.gradients, list.firsts, list.seconds, {}, steps, terms_.lr, terms_.beta1,
                      terms_.beta2, terms_.weight_decay, terms_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
  }
  void on_host(const UpdateArrays& arrays, std::int64_t number) const override { adamw_update(arrays, terms(number)); }

 private:
  [[nodiscard]] AdamwTerms terms(std::int64_t number) const {
    AdamwTerms terms = terms_;
    terms.number = number;
    return terms;
  }
  AdamwTerms terms_;
};

const AdamWOptions& options_of(const torch::optim::OptimizerParamGroup& group) {
  return static_cast<const AdamWOptions&>(group.options());
}

void check(const AdamWOptions& options, std::size_t group) {
  if (!options.amsgrad()) return;
  throw UsageError("FusedAdamW does not support amsgrad, which parameter group " + std::to_string(group) +
                   " sets; use torch::optim::AdamW");
}

}  // namespace

at::Tensor FusedAdamW::step(LossClosure closure) {
  const c10::NoGradGuard no_grad;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) check(options_of(param_groups_[group]), group);
  at::Tensor loss = loss_of(closure);
  counted_.clear();
  update_all();
  return loss;
}

void FusedAdamW::update(std::size_t group, std::size_t from, std::size_t to) {
  const auto& weights = param_groups_[group].params();
  check(options_of(param_groups_[group]), group);
  const AdamwRule rule(options_of(param_groups_[group]));
  GroupUpdate update(rule, weights, {launcher(), gradient_scale(), group, skip()});
  for (std::size_t i = from; i < to; ++i) {
    const at::Tensor& weight = weights[i];
    if (!is_due(weight)) continue;
    if (weight.grad().layout() != c10::kStrided) throw UsageError("FusedAdamW does not support sparse gradients");
    if (weight.is_complex())
      throw UsageError("FusedAdamW does not support complex parameters; use torch::optim::AdamW");
    auto& state = state_[weight.unsafeGetTensorImpl()];
    if (state == nullptr) {
      auto fresh = std::make_unique<AdamWParamState>();
      fresh->exp_avg(at::zeros_like(weight));
      fresh->exp_avg_sq(at::zeros_like(weight));
      state = std::move(fresh);
    }
    auto& mine = static_cast<AdamWParamState&>(*state);
    mine.step(mine.step() + 1);
    counted_.push_back(weight);
    update.add(i, {weight, weight.grad(), mine.exp_avg(), mine.exp_avg_sq()}, mine.step());
  }
  update.run();
}

std::vector<at::Tensor> FusedAdamW::kept_for(const at::Tensor& weight) const {
  const auto found = state_.find(weight.unsafeGetTensorImpl());
  if (found == state_.end() || found->second == nullptr) return {};
  const auto& mine = static_cast<const AdamWParamState&>(*found->second);
  return {mine.exp_avg(), mine.exp_avg_sq(), at::full({}, mine.step(), at::kLong)};
}

void FusedAdamW::undo() {
  for (const at::Tensor& weight : std::exchange(counted_, {})) {
    auto& state = static_cast<AdamWParamState&>(*state_.at(weight.unsafeGetTensorImpl()));
    state.step(state.step() - 1);
  }
}

}  // namespace kolo

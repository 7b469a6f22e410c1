#include "kolo/torch/fused_adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "kolo/error.h"
#include "torch/adamw_update.h"
#include "torch/group_update.h"

namespace kolo {
namespace {

using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

template <class T>
void update_flat(const Updated& tensors, const AdamwTerms& terms) {
  adamw_update(AdamwArrays<T>{tensors.weight.mutable_data_ptr<T>(), tensors.first.mutable_data_ptr<T>(),
                              tensors.second.mutable_data_ptr<T>(), tensors.gradient.const_data_ptr<T>(),
                              static_cast<std::size_t>(tensors.weight.numel())},
               terms);
}

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
  void on_host(const Updated& tensors, std::int64_t number) const override {
    with_type_of(tensors.weight, [&](auto zero) { update_flat<decltype(zero)>(tensors, terms(number)); });
  }
  void generic(const Updated& tensors, std::int64_t number) const override {
    const auto& [weight, gradient, first, second] = tensors;
    const auto steps = static_cast<double>(number);
    weight.mul_(1 - terms_.lr * terms_.weight_decay);
    first.mul_(terms_.beta1).add_(gradient, 1 - terms_.beta1);
    second.mul_(terms_.beta2).addcmul_(gradient, gradient, 1 - terms_.beta2);
    const at::Tensor divisor = second.sqrt().div_(std::sqrt(1 - std::pow(terms_.beta2, steps))).add_(terms_.epsilon);
    weight.addcdiv_(first, divisor, -terms_.lr / (1 - std::pow(terms_.beta1, steps)));
  }

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
  throw UsageError("FusedAdamW has no amsgrad, which parameter group " + std::to_string(group) +
                   " asks for: take torch::optim::AdamW");
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
    if (weight.grad().layout() != c10::kStrided) throw UsageError("FusedAdamW takes no sparse gradients");
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

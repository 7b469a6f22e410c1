#include "kolo/torch/fused_optimizers.h"

#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <utility>

#include "torch/group_update.h"
#include "torch/update_loops.h"

namespace kolo {
namespace {

using torch::optim::SGDOptions;
using torch::optim::SGDParamState;

class SgdRule final : public UpdateRule {
 public:
  explicit SgdRule(const SGDOptions& options)
      : terms_{options.lr(),           options.momentum(), options.dampening(),
               options.weight_decay(), options.nesterov(), false} {}

  void launch(StepLauncher& launcher, const StepBatch& batch, std::int64_t number, Stream stream) const override {
    launcher.launch(batch, terms(number), stream);
  }
  void by_torch(const UpdatedList& list, std::int64_t number) const override {
    at::_fused_sgd_(list.weights, list.gradients, list.firsts, terms_.weight_decay, terms_.momentum, terms_.lr,
                    terms_.dampening, terms_.nesterov, /*maximize=*/false, number == 1);
  }
  void on_host(const UpdateArrays& arrays, std::int64_t number) const override { sgd_update(arrays, terms(number)); }

 private:
  [[nodiscard]] SgdTerms terms(std::int64_t number) const {
    SgdTerms terms = terms_;
    terms.first = number == 1;
    return terms;
  }
  SgdTerms terms_;
};

}  // namespace

at::Tensor FusedSGD::step(LossClosure closure) {
  const c10::NoGradGuard no_grad;
  at::Tensor loss = loss_of(closure);
  begun_.clear();
  update_all();
  return loss;
}

// Of steps torch's state has no number, only whether there was one.
void FusedSGD::update(std::size_t group, std::size_t from, std::size_t to) {
  const auto& weights = param_groups_[group].params();
  const auto& options = static_cast<const SGDOptions&>(param_groups_[group].options());
  const SgdRule rule(options);
  GroupUpdate update(rule, weights, {launcher(), gradient_scale(), group, skip()});
  for (std::size_t i = from; i < to; ++i) {
    const at::Tensor& weight = weights[i];
    if (!is_due(weight)) continue;
    if (options.momentum() == 0) {
      update.add(i, {weight, weight.grad(), {}, {}}, 1);
      continue;
    }
    auto& state = state_[weight.unsafeGetTensorImpl()];
    const bool first = state == nullptr;
    if (first) {
      auto fresh = std::make_unique<SGDParamState>();
      fresh->momentum_buffer(at::zeros_like(weight));
      state = std::move(fresh);
      begun_.push_back(weight);
    }
    update.add(i, {weight, weight.grad(), static_cast<SGDParamState&>(*state).momentum_buffer(), {}}, first ? 1 : 2);
  }
  update.run();
}

std::vector<at::Tensor> FusedSGD::kept_for(const at::Tensor& weight) const {
  const auto found = state_.find(weight.unsafeGetTensorImpl());
  if (found == state_.end() || found->second == nullptr) return {};
  return {static_cast<const SGDParamState&>(*found->second).momentum_buffer()};
}

void FusedSGD::undo() {
  for (const at::Tensor& weight : std::exchange(begun_, {})) state_.erase(weight.unsafeGetTensorImpl());
}

}  // namespace kolo

#include "kolo/spi/fused_optimizer.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include "kolo/error.h"
#include "torch/group_update.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// Throws UsageError before any weight changes if torch's kernel would throw in the middle of the step: for inference
// tensors and for weights whose elements overlap.
void require_writable(const torch::optim::Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].params().size(); ++i) {
      const at::Tensor& weight = groups[group].params()[i];
      if (!weight.grad().defined()) continue;
      const bool frozen = weight.is_inference() && !c10::InferenceMode::is_enabled();
      const bool overlaps = weight.layout() == c10::kStrided && may_overlap(weight);
      if (!frozen && !overlaps) continue;
      const auto name = "parameter " + std::to_string(i) + " of group " + std::to_string(group);
      if (frozen) {
        throw UsageError("step() of a fused optimizer: " + name +
                         " was created in InferenceMode and cannot be updated outside of it; create it by clone()");
      }
      throw UsageError(overlap_text(name, weight));
    }
  }
}

}  // namespace

at::Tensor FusedOptimizer::loss_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const c10::AutoGradMode enable(true);
  return closure();
}

void FusedOptimizer::find_places() {
  std::unordered_map<const void*, Early*> by_storage;
  const auto& groups = optimizer().param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].params().size(); ++i) {
      const at::Tensor& weight = groups[group].params()[i];
      Early& mine = early_.try_emplace(weight.unsafeGetTensorImpl(), Early{group, i}).first->second;
      if (!weight.has_storage()) continue;
      const auto [other, first] = by_storage.try_emplace(weight.storage().unsafeGetStorageImpl(), &mine);
      if (!first) mine.alone = other->second->alone = false;
    }
  }
}

void FusedOptimizer::update_early(const at::Tensor& weight) {
  if (early_.empty()) find_places();
  const auto found = early_.find(weight.unsafeGetTensorImpl());
  if (found == early_.end() || !found->second.alone || !is_due(weight)) return;
  const c10::NoGradGuard no_grad;
  update(found->second.group, found->second.index, found->second.index + 1);
  found->second.updated = true;
}

void FusedOptimizer::update_all() {
  require_writable(optimizer());
  const auto& groups = optimizer().param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) update(group, 0, groups[group].params().size());
  forget_early();  // unless something has been thrown: then it is for the next try
}

bool FusedOptimizer::is_due(const at::Tensor& weight) const {
  if (!weight.grad().defined()) return false;
  const auto found = early_.find(weight.unsafeGetTensorImpl());
  return found == early_.end() || !found->second.updated;
}

bool FusedOptimizer::launches_all() const {
  bool any = false;
  for (const auto& group : optimizer().param_groups()) {
    for (const at::Tensor& weight : group.params()) {
      if (!weight.grad().defined()) continue;
      if (!is_launched(launcher(), weight, weight.grad())) return false;
      any = true;
    }
  }
  return any;
}

void FusedOptimizer::find_nonfinite(const at::Tensor& flag) {
  const Stream stream = to_stream(current_stream(flag.device()));
  const auto& groups = optimizer().param_groups();
  for (std::size_t number = 0; number < groups.size(); ++number) {
    std::vector<StepTensor> tensors = step_tensors(groups[number].params());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& gradient = groups[number].params()[i].grad();
      if (gradient.defined()) tensors[i].gradient = gradient.const_data_ptr();
    }
    launcher_->find_nonfinite({number, tensors}, flag.mutable_data_ptr<float>(), stream);
  }
}

}  // namespace kolo

#include "kolo/torch/fused_optimizer.h"

#include <c10/core/GradMode.h>

#include "torch/group_update.h"
#include "torch/torch_device.h"

namespace kolo {

at::Tensor FusedOptimizer::loss_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const c10::AutoGradMode enable(true);
  return closure();
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

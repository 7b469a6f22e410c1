#include "kolo/torch/fused_sgd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "torch/sgd_update.h"

namespace kolo {
namespace {

// Smaller tensors are not worth waking other threads for.
constexpr std::int64_t kParallelElements = 1 << 16;

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.device() != b.device()) {
    return false;
  }
  for (std::int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) > 1 && a.stride(dim) != b.stride(dim)) {
      return false;
    }
  }
  return true;
}

template <class T>
void update_flat(const at::Tensor& weight, const at::Tensor& momentum, const at::Tensor& gradient,
                 const SgdTerms& terms) {
  sgd_update(weight.mutable_data_ptr<T>(), momentum.defined() ? momentum.mutable_data_ptr<T>() : nullptr,
             gradient.const_data_ptr<T>(), static_cast<std::size_t>(weight.numel()), terms);
  weight.unsafeGetTensorImpl()->bump_version();
}

// Any type and layout, in torch's own operations.
void update_generic(const at::Tensor& weight, const at::Tensor& momentum, const at::Tensor& gradient,
                    const SgdTerms& terms) {
  at::Tensor direction = terms.weight_decay != 0 ? gradient.add(weight, terms.weight_decay) : gradient;
  if (momentum.defined()) {
    if (terms.first) {
      momentum.copy_(direction);
    } else {
      momentum.mul_(terms.momentum).add_(direction, 1 - terms.dampening);
    }
    direction = terms.nesterov ? direction.add(momentum, terms.momentum) : momentum;
  }
  weight.add_(direction, -terms.lr);
}

// Of one type, and updated on the same terms.
struct Batch {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> momenta;  // as many, or none

  void add(const at::Tensor& weight, const at::Tensor& momentum, const at::Tensor& gradient) {
    weights.push_back(weight);
    gradients.push_back(gradient);
    if (momentum.defined()) momenta.push_back(momentum);
  }
  void update(const SgdTerms& terms) const {
    at::_fused_sgd_(weights, gradients, momenta, terms.weight_decay, momenta.empty() ? 0 : terms.momentum, terms.lr,
                    terms.dampening, terms.nesterov, /*maximize=*/false, terms.first);
  }
};

// Tensors of devices, by device, type, and whether it is the first step: launches are few where tensors are many.
using DeviceBatches = std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, bool>, Batch>;

void update(const at::Tensor& weight, const at::Tensor& momentum, const at::Tensor& gradient, const SgdTerms& terms,
            DeviceBatches& batches) {
  const bool flat = weight.is_non_overlapping_and_dense() && gradient.layout() == c10::kStrided &&
                    same_layout(weight, gradient) && (!momentum.defined() || same_layout(weight, momentum));
  const auto type = weight.scalar_type();
  if (flat && !weight.is_cpu()) {
    batches[{weight.device().type(), weight.device().index(), type, terms.first}].add(weight, momentum, gradient);
  } else if (!flat || (type != c10::kFloat && type != c10::kDouble)) {
    update_generic(weight, momentum, gradient, terms);
  } else if (weight.numel() >= kParallelElements && at::get_num_threads() > 1) {
    Batch batch;
    batch.add(weight, momentum, gradient);
    batch.update(terms);
  } else if (type == c10::kFloat) {
    update_flat<float>(weight, momentum, gradient, terms);
  } else {
    update_flat<double>(weight, momentum, gradient, terms);
  }
}

}  // namespace

at::Tensor FusedSGD::step(LossClosure closure) {
  const c10::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure) {
    const c10::AutoGradMode enable(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    SgdTerms terms{options.lr(),           options.momentum(), options.dampening(),
                   options.weight_decay(), options.nesterov(), false};
    DeviceBatches batches;
    for (const at::Tensor& weight : group.params()) {
      if (!weight.grad().defined()) {
        continue;
      }
      at::Tensor momentum;
      if (options.momentum() != 0) {
        auto& state = state_[weight.unsafeGetTensorImpl()];
        terms.first = state == nullptr;
        if (terms.first) {
          auto fresh = std::make_unique<torch::optim::SGDParamState>();
          fresh->momentum_buffer(at::empty_like(weight));
          state = std::move(fresh);
        }
        momentum = static_cast<torch::optim::SGDParamState&>(*state).momentum_buffer();
      }
      update(weight, momentum, weight.grad(), terms, batches);
    }
    for (const auto& [key, batch] : batches) {
      terms.first = std::get<bool>(key);
      batch.update(terms);
    }
  }
  return loss;
}

}  // namespace kolo

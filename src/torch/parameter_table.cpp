#include "torch/parameter_table.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <unordered_set>

#include "kolo/error.h"
#include "kolo/spi/strides.h"
#include "torch/dtype.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// As autograd lays gradients out: like the parameter when that is dense, else contiguous.
std::vector<std::int64_t> gradient_strides(const at::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() ? parameter.strides().vec() : contiguous_strides(parameter.sizes());
}

bool has(const torch::optim::Optimizer& optimizer, const c10::TensorImpl* tensor) {
  return std::ranges::any_of(optimizer.param_groups(), [&](const auto& group) {
    return std::ranges::any_of(group.params(), [&](const at::Tensor& t) { return t.unsafeGetTensorImpl() == tensor; });
  });
}

}  // namespace

void ParameterNames::add(const NamedTensors& tensors, const torch::optim::Optimizer* optimizer) {
  if (by_name_.empty()) {
    by_name_.reserve(tensors.size());
    by_tensor_.reserve(tensors.size());
  }
  for (const auto& [name, tensor] : tensors) {
    const auto [known, fresh] = by_name_.try_emplace(name, weak(tensor));
    if (!fresh && !is_same(known->second, tensor)) {
      const bool in_use = optimizer == nullptr || has(*optimizer, known->second._unsafe_get_target());
      if (in_use && !known->second.expired())
        throw UsageError("DistributedOptimizer: two parameters have the name '" + name + "'");
      by_tensor_.erase(known->second._unsafe_get_target());
      known->second = weak(tensor);
    }
    by_tensor_.try_emplace(tensor.unsafeGetTensorImpl(), &known->first);
  }
}

const std::string* ParameterNames::find(const at::Tensor& tensor) const {
  const auto found = by_tensor_.find(tensor.unsafeGetTensorImpl());
  return found == by_tensor_.end() ? nullptr : found->second;
}

namespace {

// Sorting is cheaper than a set of all of them, and repetitions are rare.
bool some_are_repeated(const std::vector<torch::optim::OptimizerParamGroup>& groups, std::size_t count) {
  std::vector<const c10::TensorImpl*> all;
  all.reserve(count);
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) all.push_back(tensor.unsafeGetTensorImpl());
  }
  std::ranges::sort(all);
  return std::ranges::adjacent_find(all) != all.end();
}

}  // namespace

std::vector<NamedParameter> trainable_parameters(const torch::optim::Optimizer& optimizer, const ParameterNames& names,
                                                 Unnamed unnamed) {
  std::vector<NamedParameter> result;
  std::unordered_set<c10::TensorImpl*> seen;
  const auto& groups = optimizer.param_groups();
  std::size_t count = 0;
  for (const auto& group : groups) count += group.params().size();
  result.reserve(count);
  const bool repeated = some_are_repeated(groups, count);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& tensors = groups[group].params();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].requires_grad()) continue;
      if (repeated && !seen.insert(tensors[i].unsafeGetTensorImpl()).second) continue;
      if (const std::string* name = names.find(tensors[i])) {
        result.push_back({*name, tensors[i]});
        continue;
      }
      const std::string position = std::to_string(group) + "." + std::to_string(i);
      if (unnamed == Unnamed::refuse) {
        throw UsageError("DistributedOptimizer: parameter " + position +
                         " (group.position) of the optimizer has no name; pass the model that contains it");
      }
      result.push_back({"param_group." + position, tensors[i]});
    }
  }
  return result;
}

GradientInfo describe_gradient(const NamedParameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  if (const auto trouble = trouble_with(tensor, Access::write); !trouble.empty()) {
    throw UsageError("parameter '" + parameter.name + "' " + trouble);
  }
  GradientInfo info;
  info.name = parameter.name;
  info.sizes = tensor.sizes().vec();
  info.strides = gradient_strides(tensor);
  info.dtype = to_dtype(tensor.scalar_type(), parameter.name);
  info.on_device = !tensor.is_cpu();
  return info;
}

std::optional<c10::Device> device_of(const std::vector<NamedParameter>& parameters) {
  const NamedParameter* first = nullptr;
  for (const auto& parameter : parameters) {
    if (parameter.tensor.is_cpu()) {
      continue;
    }
    if (first == nullptr) {
      first = &parameter;
    } else if (parameter.tensor.device() != first->tensor.device()) {
      throw UsageError("parameters of one rank must be on one device: parameter '" + first->name + "' is on " +
                       first->tensor.device().str() + ", '" + parameter.name + "' is on " +
                       parameter.tensor.device().str());
    }
  }
  if (first == nullptr) {
    return std::nullopt;
  }
  return first->tensor.device();
}

bool is_described_by(const at::Tensor& parameter, const GradientInfo& info) {
  return parameter.layout() == c10::kStrided && parameter.is_cpu() != info.on_device &&
         parameter.scalar_type() == to_scalar_type(info.dtype) && parameter.sizes() == info.sizes &&
         (parameter.strides() == info.strides ||
          canonical_strides(info.sizes, gradient_strides(parameter)) == canonical_strides(info.sizes, info.strides));
}

bool lies_as(const at::Tensor& tensor, const GradientInfo& info) {
  if (!is_plain(tensor) || tensor.scalar_type() != to_scalar_type(info.dtype) || tensor.sizes() != info.sizes) {
    return false;
  }
  for (std::size_t dim = 0; dim < info.sizes.size(); ++dim) {
    if (info.sizes[dim] > 1 && tensor.strides()[dim] != info.strides[dim]) {
      return false;
    }
  }
  return true;
}

at::Tensor laid_out(const at::Tensor& gradient, const GradientInfo& info, bool copied) {
  if (!copied && lies_as(gradient, info)) {
    return gradient;
  }
  const c10::NoGradGuard no_grad;
  at::Tensor copy = at::empty_strided(info.sizes, info.strides, gradient.options().dtype(to_scalar_type(info.dtype)));
  copy.copy_(gradient);
  return copy;
}

}  // namespace kolo

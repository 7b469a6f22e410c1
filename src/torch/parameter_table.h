#pragma once
// Which parameters take part in the reduction, under which names, and what their gradients look like.
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kolo/spi/gradient_reducer.h"
#include "kolo/torch/distributed_optimizer.h"
#include "torch/weak_tensor.h"

namespace kolo {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// Names of tensors by identity. A tensor may have several names (a shared parameter): the first one counts.
class ParameterNames {
 public:
  // Throws UsageError when one name means two tensors. Keeps none alive. The name of a tensor that has gone is free,
  // and with an `optimizer` the name of a tensor that is in none of its groups.
  void add(const NamedTensors& tensors, const torch::optim::Optimizer* optimizer = nullptr);
  [[nodiscard]] const std::string* find(const at::Tensor& tensor) const;

 private:
  std::unordered_map<std::string, WeakTensor> by_name_;
  std::unordered_map<c10::TensorImpl*, const std::string*> by_tensor_;  // keys of by_name_
};

enum class Unnamed { refuse, invent };  // invent: "param_group.<group>.<position>"

// The optimizer's parameters that require a gradient, group after group, each once. Unnamed ones throw UsageError or
// get a name by position.
[[nodiscard]] std::vector<NamedParameter> trainable_parameters(const torch::optim::Optimizer& optimizer,
                                                               const ParameterNames& names, Unnamed unnamed);

// Throws UsageError naming the parameter when kolo cannot reduce its gradient: see trouble_with().
[[nodiscard]] GradientInfo describe_gradient(const NamedParameter& parameter);

// The one that those not in the host's memory are on. Throws UsageError naming two that are not on the same.
[[nodiscard]] std::optional<c10::Device> device_of(const std::vector<NamedParameter>& parameters);

// Whether describe_gradient(tensor) would be `info`, the name apart.
[[nodiscard]] bool is_described_by(const at::Tensor& parameter, const GradientInfo& info);
// Whether the values of a tensor lie in memory as `info` says; strides of dimensions of size one do not matter.
[[nodiscard]] bool lies_as(const at::Tensor& tensor, const GradientInfo& info);
// The gradient with its elements where `info` says, and of the type that it says: itself where that holds already,
// unless it is to be `copied`.
[[nodiscard]] at::Tensor laid_out(const at::Tensor& gradient, const GradientInfo& info, bool copied);

}  // namespace kolo

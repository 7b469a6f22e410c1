#pragma once
// Starts all ranks from the same model and the same optimizer state.
//
//   kolo::broadcast_parameters(context, model);  // rank 0's values
//   kolo::DistributedOptimizer optimizer(context, sgd, model);
//   kolo::broadcast_optimizer_state(context, optimizer);  // after rank 0 has loaded a checkpoint
//
// All calls are collective and use context.communicator().
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"

namespace KOLO_EXPORT kolo {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// The items of a container with their names: pairs, a std::map, a torch::OrderedDict, or a list of a TorchScript
// module.
template <class Items>
[[nodiscard]] NamedTensors named_tensors(const Items& items) {
  NamedTensors tensors;
  for (const auto& item : items) {
    if constexpr (requires { item.key(); }) {
      tensors.emplace_back(item.key(), item.value());
    } else if constexpr (requires { item.name; }) {
      tensors.emplace_back(item.name, item.value);
    } else {
      tensors.emplace_back(item.first, item.second);
    }
  }
  return tensors;
}

// A model is a torch::nn::Module (or one of TorchScript), a holder of one or a pointer to one, or a container of names
// and tensors that named_tensors() takes. A module of LibTorch needs its header, <torch/nn/module.h> or one that
// includes it.
template <class Model>
[[nodiscard]] NamedTensors parameters_of(const Model& model) {
  if constexpr (requires { model.named_parameters(); }) {
    return named_tensors(model.named_parameters());
  } else if constexpr (requires { model->named_parameters(); }) {
    return named_tensors(model->named_parameters());
  } else if constexpr (requires { model.begin(); }) {
    return named_tensors(model);
  } else {
    static_assert(sizeof(Model) == 0,
                  "kolo: pass the model as a torch::nn::Module, a module holder, a std::shared_ptr of a module, "
                  "model->named_parameters(), or pairs of name and tensor");
  }
}

// Parameters and buffers; of a container all its tensors.
template <class Model>
[[nodiscard]] NamedTensors model_tensors(const Model& model) {
  NamedTensors tensors = parameters_of(model);
  NamedTensors buffers;
  if constexpr (requires { model.named_buffers(); }) {
    buffers = named_tensors(model.named_buffers());
  } else if constexpr (requires { model->named_buffers(); }) {
    buffers = named_tensors(model->named_buffers());
  }
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  return tensors;
}

// Throws MismatchError on every rank, naming the first tensor that differs, the ranks and both values, unless all ranks
// have the same names, types, sizes and strides in the same order. A tensor may be undefined, if it is on all of them.
void verify_model(Context& context, const NamedTensors& tensors);
template <class Model>
void verify_model(Context& context, const Model& model) {
  verify_model(context, model_tensors(model));
}

// Copies the root's values to every rank, in place, after verify_model. If a rank's tensor cannot
// be written (kolo/torch/ops.h), or its root is not a rank, every rank throws UsageError before any
// value changes. Tensors may require a gradient. Device tensors go through the host's memory.
void broadcast_parameters(Context& context, const NamedTensors& tensors, Rank root = 0);
template <class Model>
void broadcast_parameters(Context& context, const Model& model, Rank root = 0) {
  broadcast_parameters(context, model_tensors(model), root);
}

// Gives every rank the root's optimizer state (momentum, step counts, ...) and options (learning rate, ...). Touches no
// weight. State goes where the optimizer's parameters are, which is one device. Works for every optimizer that torch
// can save, also in a DistributedOptimizer. Throws MismatchError on every rank when the root's state cannot be saved or
// does not fit a rank's optimizer; after an error all optimizers are as they were.
void broadcast_optimizer_state(Context& context, torch::optim::Optimizer& optimizer, Rank root = 0);

}  // namespace kolo

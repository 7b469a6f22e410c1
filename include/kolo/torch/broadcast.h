#pragma once
// Starts all ranks from the same model and the same optimizer state.
//
//   kolo::broadcast_parameters(context, model);  // rank 0's values
//   kolo::DistributedOptimizer optimizer(context, sgd, model);
//   kolo::broadcast_optimizer_state(context, optimizer);  // after rank 0 has loaded a checkpoint
//
// All calls are Communicator calls: all ranks make them in the same order.
#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/detail/export.h"
#include "kolo/error.h"

namespace KOLO_EXPORT kolo {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// `items` is a range of pairs, a std::map, a torch::OrderedDict, or the named_parameters() of a TorchScript module.
template <class Items>
[[nodiscard]] NamedTensors named_tensors(const Items& items) {
  NamedTensors tensors;
  for (const auto& item : items) {
    if constexpr (requires { item.key(); }) {
      tensors.emplace_back(item.key(), item.value());
    } else if constexpr (requires { item.name; }) {
      tensors.emplace_back(item.name, item.value);
    } else if constexpr (requires { tensors.emplace_back(item.first, item.second); }) {
      tensors.emplace_back(item.first, item.second);
    } else {
      static_assert(
          sizeof(Items) == 0,
          "kolo: pass the model, model->named_parameters(), or pairs of name and tensor: parameters need names");
    }
  }
  return tensors;
}

// A model is a torch::nn::Module, a torch::jit::Module, a module holder, a pointer to a module, or a range of named
// tensors. The program includes the header of its module.
template <class Model>
[[nodiscard]] NamedTensors parameters_of(const Model& model) {
  if constexpr (requires { model.named_parameters(); }) {
    return named_tensors(model.named_parameters());
  } else if constexpr (requires { model->named_parameters(); }) {
    if constexpr (requires { model == nullptr; }) {
      if (model == nullptr) throw UsageError("the pointer to the model is null");
    }
    return named_tensors(model->named_parameters());
  } else if constexpr (requires { model.begin(); }) {
    return named_tensors(model);
  } else {
    static_assert(sizeof(Model) == 0,
                  "kolo: pass the model as a torch::nn::Module, a module holder, a std::shared_ptr of a module, "
                  "model->named_parameters(), or pairs of name and tensor");
  }
}

// Parameters and buffers; all tensors of a range.
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

// Compares names, types, sizes and strides of all tensors. If ranks differ, every rank throws MismatchError with the
// first difference, the ranks and both values. A tensor may be undefined if it is undefined on every rank.
void verify_model(Context& context, const NamedTensors& tensors);
template <class Model>
void verify_model(Context& context, const Model& model) {
  verify_model(context, model_tensors(model));
}

// Copies the root's values to every rank, in place, after verify_model(). If a tensor is undefined or not writable
// (kolo/torch/ops.h), or `root` is out of range on any rank, every rank throws UsageError before a value changes.
// Tensors may require a gradient. Device tensors are copied through CPU memory.
void broadcast_parameters(Context& context, const NamedTensors& tensors, Rank root = 0);
template <class Model>
void broadcast_parameters(Context& context, const Model& model, Rank root = 0) {
  broadcast_parameters(context, model_tensors(model), root);
}

// Copies the root's optimizer state (momentum, step counts, ...) and options (learning rate, ...) to every rank.
// Changes no weight. Each rank stores the state on the device of its parameters, which must be one device. Works for
// every optimizer that torch::save can save, also in a DistributedOptimizer. If the root's state cannot be saved or
// does not fit a rank's optimizer, every rank throws MismatchError and no optimizer has changed.
void broadcast_optimizer_state(Context& context, torch::optim::Optimizer& optimizer, Rank root = 0);

}  // namespace kolo

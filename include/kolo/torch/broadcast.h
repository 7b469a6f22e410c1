#pragma once
// Starting all ranks from the same model. All calls are collective and use context.communicator().
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "kolo/context.h"
#include "kolo/export.h"
#include "kolo/torch/distributed_optimizer.h"

namespace KOLO_EXPORT kolo {

// Parameters and buffers of a module, by name.
[[nodiscard]] NamedTensors model_tensors(const torch::nn::Module& module);

// Throws MismatchError on every rank, naming the first tensor that differs, the ranks and both values, unless all ranks
// have the same names, types, sizes and strides in the same order. A tensor may be undefined, if it is on all of them.
void verify_model(Context& context, const NamedTensors& tensors);
void verify_model(Context& context, const torch::nn::Module& module);

// Copies the root's values to every rank, in place, after verify_model. If a rank's tensor cannot
// be written (kolo/torch/ops.h), or its root is not a rank, every rank throws UsageError before any
// value changes. Tensors may require a gradient. Device tensors go through the host's memory.
void broadcast_parameters(Context& context, const NamedTensors& tensors, Rank root = 0);
void broadcast_parameters(Context& context, const torch::nn::Module& module, Rank root = 0);

// Gives every rank the root's optimizer state (momentum, step counts, ...) and options (learning rate, ...). Touches no
// weight. State goes where the optimizer's parameters are, which is one device. Works for every optimizer that torch
// can save. Throws MismatchError on every rank when the root's state cannot be saved or does not fit a rank's
// optimizer; after an error all optimizers are as they were.
void broadcast_optimizer_state(Context& context, torch::optim::Optimizer& optimizer, Rank root = 0);

}  // namespace kolo

#pragma once
// What the options of a DistributedOptimizer are to its reducer.
#include <torch/optim/optimizer.h>

#include <optional>

#include "kolo/gradient_reducer.h"
#include "kolo/torch/distributed_optimizer.h"

namespace kolo {

// `optimizer` lives as long as rounds are closed; `device` is that of its parameters, if they are on one. Throws
// UsageError for options that make no sense, or not together with these.
[[nodiscard]] ReducerOptions reducer_options(const DistributedOptions& options,
                                             const torch::optim::Optimizer& optimizer,
                                             const std::optional<c10::Device>& device);

}  // namespace kolo

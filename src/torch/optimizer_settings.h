#pragma once
// The options of a wrapped optimizer: those of its reducer, and those that all ranks compare.
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kolo/spi/gradient_reducer.h"
#include "kolo/torch/distributed_optimizer.h"

namespace kolo {

// What of an optimizer must be equal on all ranks, on one line, with ", " between settings: its type and all options,
// "torch::optim::SGD, lr=0.1, momentum=0.9, ...". With several groups: "..., 2 parameter groups, group 0 lr=0.1, ...".
// Options that a type cannot serialize are left out, apart from a learning rate.
[[nodiscard]] std::string settings_of(const torch::optim::Optimizer& optimizer);
// `optimizer` lives as long as rounds are closed; `device` is that of its parameters, if they are on one. Throws
// UsageError for options that make no sense, or not together with these.
[[nodiscard]] ReducerOptions reducer_options(const DistributedOptions& options,
                                             const torch::optim::Optimizer& optimizer,
                                             const std::optional<c10::Device>& device);
// What it keeps for this parameter: defined tensors, and its number of steps, where that is none of them. Nothing of
// LBFGS, nor of optimizers that are neither LibTorch's nor kolo's.
struct KeptState {
  std::vector<at::Tensor> tensors;
  std::int64_t steps = 0;
};
[[nodiscard]] KeptState kept_by(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter);
// Empty if the options have no learning rate. LibTorch then throws inside, which is slow.
[[nodiscard]] std::optional<double> learning_rate_of(const torch::optim::OptimizerOptions& options);
// A hash of the learning rates of all groups that have one.
[[nodiscard]] std::uint64_t learning_rate_fingerprint(const torch::optim::Optimizer& optimizer);

}  // namespace kolo

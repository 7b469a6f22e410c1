#include "optimizer.h"

#include <torch/optim/sgd.h>

#include "kolo/torch/fused_sgd.h"

namespace imagenet {

std::shared_ptr<torch::optim::Optimizer> make_optimizer(const Options& options, const torch::nn::Module& model) {
  using torch::optim::OptimizerParamGroup;
  using torch::optim::SGDOptions;
  SGDOptions defaults(options.lr);
  defaults.momentum(options.momentum).nesterov(options.nesterov).weight_decay(options.weight_decay);

  std::vector<at::Tensor> decayed, undecayed;
  for (const auto& parameter : model.parameters()) {
    (options.no_decay_norm_bias && parameter.dim() == 1 ? undecayed : decayed).push_back(parameter);
  }
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<SGDOptions>(defaults));
  if (!undecayed.empty()) {
    groups.emplace_back(undecayed, std::make_unique<SGDOptions>(SGDOptions(defaults).weight_decay(0)));
  }
  if (options.optimizer == OptimizerKind::torch) return std::make_shared<torch::optim::SGD>(groups, defaults);
  return std::make_shared<kolo::FusedSGD>(groups, defaults);
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

at::Tensor momentum_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  return static_cast<torch::optim::SGDParamState&>(*found->second).momentum_buffer();
}

void set_momentum(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, const at::Tensor& momentum) {
  auto state = std::make_unique<torch::optim::SGDParamState>();
  state->momentum_buffer(momentum);
  optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
}

}  // namespace imagenet

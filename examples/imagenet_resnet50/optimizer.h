#pragma once
// SGD with momentum, kolo's or LibTorch's, behind the few calls the trainer needs.
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>

#include "options.h"

namespace imagenet {

// Over the model's parameters; with no_decay_norm_bias a second group holds those of one dimension, without weight
// decay.
std::shared_ptr<torch::optim::Optimizer> make_optimizer(const Options& options, const torch::nn::Module& model);

void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

// A parameter's momentum; undefined before its first step.
at::Tensor momentum_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter);
void set_momentum(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, const at::Tensor& momentum);

}  // namespace imagenet

#pragma once
// A model of one weight, whose gradient on rank r is r + 1, for tests of what programs do by mistake.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/torch/torch.h"

namespace kolo::test {

template <class E>
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

class Training {
 public:
  explicit Training(Context& context, DistributedOptions options = {})
      : weight(torch::ones({4}).requires_grad_(true)),
        inner(std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight},
                                                  torch::optim::SGDOptions(0.125).momentum(0.5))),
        optimizer(context, inner, NamedTensors{{"weight", weight}}, options),
        rank_(context.rank()),
        context_(context) {}

  void backward() {
    optimizer.zero_grad();
    (weight * (rank_ + 1)).sum().backward();
  }
  void step() {
    backward();
    optimizer.step();
  }
  void set_rate(double rate) {
    for (auto& group : inner->param_groups()) group.options().set_lr(rate);
  }
  void start_again() {
    broadcast_parameters(context_, NamedTensors{{"weight", weight}});
    broadcast_optimizer_state(context_, *inner);
  }
  void expect_equal_weights() {
    const auto sum = weight.detach().sum().item<double>();
    const auto found = allreduce_metrics(context_, {sum, -sum}, ReduceOp::max, "sums");
    EXPECT_EQ(found[0], -found[1]);
  }

  at::Tensor weight;
  std::shared_ptr<torch::optim::SGD> inner;
  DistributedOptimizer optimizer;

 private:
  Rank rank_;
  Context& context_;
};

}  // namespace kolo::test

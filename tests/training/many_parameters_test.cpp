// Thousands of parameters, whose table changes: each keeps its name, its slot and its gradient. Times are measured by
// bench/many_parameters.cpp.
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "training/one_weight.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;

constexpr int kCount = 5000;

struct Many {
  Many() {
    for (int i = 0; i < kCount; ++i) add(2);
    sgd = std::make_shared<torch::optim::SGD>(weights, torch::optim::SGDOptions(0.125));
  }
  void add(std::int64_t elements) {
    weights.push_back(torch::ones({elements}).requires_grad_());
    names.emplace_back("w" + std::to_string(names.size()), weights.back());
  }
  // The gradient of weight i is (i % 8) * x.
  void backward(double x) const {
    std::vector<at::Tensor> losses;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i].requires_grad()) losses.push_back((weights[i] * (static_cast<double>(i % 8) * x)).sum());
    }
    torch::stack(losses).sum().backward();
  }
  void expect(std::size_t i, int steps, double mean) const {
    const double wanted = 1 - 0.125 * steps * static_cast<double>(i % 8) * mean;
    EXPECT_TRUE(weights[i].eq(wanted).all().item<bool>()) << "weight " << i << " is " << weights[i].detach();
  }
  std::vector<at::Tensor> weights;
  NamedTensors names;
  std::shared_ptr<torch::optim::SGD> sgd;
};

TEST(ManyParameters, FrozenUnfrozenAndAddedParametersGetTheirOwnGradients) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](Context& context) {
      Many many;
      DistributedOptimizer optimizer(context, many.sgd, many.names);
      const auto step = [&] {
        optimizer.zero_grad();
        many.backward(context.rank() + 1);
        optimizer.step();
      };
      step();
      for (std::size_t i = 0; i < kCount; i += 2) many.weights[i].requires_grad_(false);
      step();
      for (std::size_t i = 0; i < kCount; i += 4) many.weights[i].requires_grad_(true);
      for (int i = 0; i < 20; ++i) {
        many.add(3);
        optimizer.add_param_group(torch::optim::OptimizerParamGroup({many.weights.back()}), {many.names.back()});
      }
      step();
      const double mean = (context.size() + 1) / 2.0;
      for (std::size_t i = 0; i < many.weights.size(); ++i) {
        many.expect(i, i >= kCount ? 1 : i % 2 == 1 ? 3 : i % 4 == 0 ? 2 : 1, mean);
      }
      optimizer.detach();
    });
  }
}

TEST(ManyParameters, OneDifferentNameIsMismatchErrorOnBothRanks) {
  on_ranks(2, [](Context& context) {
    Many many;
    if (context.rank() == 1) many.names[kCount / 2].first = "other";
    const auto told = error_of<MismatchError>([&] { DistributedOptimizer optimizer(context, many.sgd, many.names); });
    EXPECT_THAT(told, HasSubstr("tensor w2500 exists on rank 0 but not on rank 1"));
  });
}

}  // namespace
}  // namespace kolo::test

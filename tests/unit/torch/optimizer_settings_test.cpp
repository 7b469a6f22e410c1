#include "torch/optimizer_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "kolo/torch/fused_sgd.h"

namespace kolo {
namespace {

using testing::HasSubstr;
using torch::optim::SGDOptions;

template <class Optimizer = torch::optim::SGD, class Options = SGDOptions>
std::string settings(const Options& options) {
  return settings_of(Optimizer({torch::ones({2})}, options));
}

TEST(OptimizerSettings, AreEqualForTheSameAndSayWhatIsRead) {
  const auto options = SGDOptions(0.25).momentum(0.9);
  EXPECT_EQ(settings(options), settings(options));
  EXPECT_THAT(settings(options), HasSubstr("torch::optim::SGD, lr=0.25 options="));
}

TEST(OptimizerSettings, DifferInEveryOptionAndInTheType) {
  const auto usual = SGDOptions(0.1).momentum(0.9);
  for (const auto& other :
       {SGDOptions(0.2).momentum(0.9), SGDOptions(0.1).momentum(0.8), SGDOptions(0.1).momentum(0.9).weight_decay(1e-4),
        SGDOptions(0.1).momentum(0.9).nesterov(true)}) {
    EXPECT_NE(settings(other), settings(usual));
  }
  EXPECT_NE(settings<FusedSGD>(usual), settings(usual));
  using AdamW = torch::optim::AdamW;
  using AdamWOptions = torch::optim::AdamWOptions;
  EXPECT_EQ(settings<AdamW>(AdamWOptions(0.1)), settings<AdamW>(AdamWOptions(0.1)));
  EXPECT_NE(settings<AdamW>(AdamWOptions(0.1).eps(1e-6)), settings<AdamW>(AdamWOptions(0.1)));
}

TEST(OptimizerSettings, CountEveryGroup) {
  torch::optim::SGD optimizer({torch::ones({2})}, SGDOptions(0.1));
  const std::string one = settings_of(optimizer);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::ones({3})}));
  EXPECT_NE(settings_of(optimizer), one);
}

// A type of options that offers nothing to read.
struct Bare : torch::optim::OptimizerCloneableOptions<Bare> {};
class BareOptimizer final : public torch::optim::Optimizer {
 public:
  BareOptimizer() : Optimizer({torch::optim::OptimizerParamGroup({torch::ones({2})})}, std::make_unique<Bare>()) {}
  torch::Tensor step(LossClosure /*closure*/) override { return {}; }
};

TEST(OptimizerSettings, LeaveOutWhatCannotBeRead) {
  EXPECT_THAT(settings_of(BareOptimizer()), HasSubstr("BareOptimizer"));
}

}  // namespace
}  // namespace kolo

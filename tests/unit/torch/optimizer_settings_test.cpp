#include "torch/optimizer_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cmath>

#include "kolo/torch/fused_optimizers.h"

namespace kolo {
namespace {

using testing::HasSubstr;
using torch::optim::SGDOptions;

template <class Optimizer = torch::optim::SGD, class Options = SGDOptions>
std::string settings(const Options& options) {
  return settings_of(Optimizer({torch::ones({2})}, options));
}

// The options in a line of settings: all parts after the type.
std::vector<std::string> options_in(const std::string& line) {
  std::vector<std::string> options;
  for (std::size_t at = line.find(", "); at != std::string::npos;) {
    const std::size_t end = line.find(", ", at + 2);
    options.push_back(line.substr(at + 2, end == std::string::npos ? end : end - at - 2));
    at = end;
  }
  return options;
}

TEST(OptimizerSettings, ContainEveryOptionWithItsValue) {
  using testing::UnorderedElementsAre;
  using namespace torch::optim;
  EXPECT_THAT(settings(SGDOptions(0.25).momentum(0.9)), testing::StartsWith("torch::optim::SGD, "));
  EXPECT_THAT(options_in(settings(SGDOptions(0.25).momentum(0.9).weight_decay(1e-4))),
              UnorderedElementsAre("lr=0.25", "momentum=0.9", "dampening=0", "weight_decay=1e-04", "nesterov=false"));
  EXPECT_THAT(options_in(settings<Adam>(AdamOptions(0.1).betas({0.8, 0.99}).amsgrad(true))),
              UnorderedElementsAre("lr=0.1", "betas=(0.8,0.99)", "eps=1e-08", "weight_decay=0", "amsgrad=true"));
  EXPECT_THAT(options_in(settings<AdamW>(AdamWOptions(0.1).eps(1e-6))),
              UnorderedElementsAre("lr=0.1", "betas=(0.9,0.999)", "eps=1e-06", "weight_decay=0.01", "amsgrad=false"));
  EXPECT_THAT(
      options_in(settings<Adagrad>(AdagradOptions(0.1).lr_decay(0.5))),
      UnorderedElementsAre("lr=0.1", "lr_decay=0.5", "weight_decay=0", "initial_accumulator_value=0", "eps=1e-10"));
  EXPECT_THAT(
      options_in(settings<RMSprop>(RMSpropOptions(0.1).centered(true))),
      UnorderedElementsAre("lr=0.1", "alpha=0.99", "eps=1e-08", "weight_decay=0", "momentum=0", "centered=true"));
  EXPECT_THAT(options_in(settings<LBFGS>(LBFGSOptions(1).max_iter(7).line_search_fn("strong_wolfe"))),
              testing::IsSupersetOf({"lr=1", "max_iter=7", "history_size=100", "line_search_fn=strong_wolfe"}));
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

TEST(OptimizerSettings, DifferInNumberOfGroups) {
  torch::optim::SGD optimizer({torch::ones({2})}, SGDOptions(0.1));
  const std::string one = settings_of(optimizer);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::ones({3})}));
  EXPECT_NE(settings_of(optimizer), one);
}

TEST(OptimizerSettings, NameGroupOfEachOptionIfThereAreSeveral) {
  torch::optim::SGD optimizer({torch::ones({2})}, SGDOptions(0.1));
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(
      {torch::ones({3})}, std::make_unique<SGDOptions>(SGDOptions(0.2).momentum(0.5))));
  EXPECT_THAT(options_in(settings_of(optimizer)),
              testing::IsSupersetOf({"2 parameter groups", "group 0 lr=0.1", "group 0 momentum=0", "group 1 lr=0.2",
                                     "group 1 momentum=0.5"}));
}

// Options without a field that can be read.
struct Bare : torch::optim::OptimizerCloneableOptions<Bare> {};
class BareOptimizer final : public torch::optim::Optimizer {
 public:
  BareOptimizer() : Optimizer({torch::optim::OptimizerParamGroup({torch::ones({2})})}, std::make_unique<Bare>()) {}
  torch::Tensor step(LossClosure /*closure*/) override { return {}; }
};

TEST(OptimizerSettings, OmitOptionsThatCannotBeRead) {
  EXPECT_THAT(settings_of(BareOptimizer()), HasSubstr("BareOptimizer"));
}

TEST(LearningRateFingerprint, DependsOnlyOnRateOfEachGroup) {
  const auto fingerprint_of = [](const std::vector<SGDOptions>& groups) {
    torch::optim::SGD optimizer({torch::ones({2})}, groups.front());
    for (std::size_t i = 1; i < groups.size(); ++i) {
      optimizer.add_param_group(
          torch::optim::OptimizerParamGroup({torch::ones({3})}, std::make_unique<SGDOptions>(groups[i])));
    }
    return learning_rate_fingerprint(optimizer);
  };
  const auto one = fingerprint_of({SGDOptions(0.1), SGDOptions(0.2)});
  EXPECT_EQ(fingerprint_of({SGDOptions(0.1).momentum(0.9), SGDOptions(0.2)}), one);
  EXPECT_NE(fingerprint_of({SGDOptions(0.2), SGDOptions(0.1)}), one);
  EXPECT_NE(fingerprint_of({SGDOptions(0.1), SGDOptions(std::nextafter(0.2, 1.0))}), one);
  EXPECT_NE(fingerprint_of({SGDOptions(0.1)}), one);
  EXPECT_EQ(learning_rate_fingerprint(BareOptimizer()), learning_rate_fingerprint(BareOptimizer()));
}

}  // namespace
}  // namespace kolo

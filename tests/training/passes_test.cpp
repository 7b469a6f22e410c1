// passes_per_step where gradients are dropped between passes: only passes that a gradient holds are counted.
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <functional>
#include <optional>
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

constexpr int kPasses = 4;
constexpr double kRate = 0.125;

DistributedOptions four_passes() { return {.passes_per_step = kPasses}; }
DistributedOptions four_shared_passes() {
  return {.passes_per_step = kPasses, .shared_gradients = true, .shared_from = 1};
}
DistributedOptions four_overlapped_passes() { return {.passes_per_step = kPasses, .overlap_update = true}; }

// A pass with x adds (rank + 1) * x to each element of the gradient of `weight`.
struct Accumulation {
  explicit Accumulation(Context& where, const DistributedOptions& options = four_passes()) : context(where) {
    const torch::NoGradGuard no_grad;
    model->weight.fill_(1);
    optimizer.emplace(context, inner, model->named_parameters(), options);
  }
  void pass(double x) { model->forward(torch::full({1, 8}, x * (context.rank() + 1))).sum().backward(); }
  void passes(int count, double x = 1) {
    for (int i = 0; i < count; ++i) pass(x);
  }
  // The reduced gradient is `sum` times the mean of rank + 1.
  void expect_gradient(double sum) const {
    const double wanted = sum * (context.size() + 1) / 2;
    EXPECT_TRUE(model->weight.grad().eq(wanted).all().item<bool>()) << model->weight.grad() << " not " << wanted;
  }

  Context& context;
  torch::nn::Linear model{torch::nn::LinearOptions(8, 1).bias(false)};
  FusedSGD inner{model->parameters(), torch::optim::SGDOptions(kRate)};
  std::optional<DistributedOptimizer> optimizer;
};

struct Drop {
  const char* name;
  std::function<void(Accumulation&)> act;
};
std::vector<Drop> drops() {
  return {{"DistributedOptimizer", [](Accumulation& t) { t.optimizer->zero_grad(); }},
          {"DistributedOptimizer, zeros", [](Accumulation& t) { t.optimizer->zero_grad(false); }},
          {"wrapped optimizer", [](Accumulation& t) { t.inner.zero_grad(); }},
          {"wrapped optimizer, zeros", [](Accumulation& t) { t.inner.zero_grad(false); }},
          {"model", [](Accumulation& t) { t.model->zero_grad(); }},
          {"model, zeros", [](Accumulation& t) { t.model->zero_grad(false); }},
          {"reset", [](Accumulation& t) { t.model->weight.mutable_grad().reset(); }},
          {"replaced", [](Accumulation& t) {
             t.model->weight.mutable_grad() = torch::zeros({1, 8});
           }}};
}

TEST(PassesPerStep, PassesOfDroppedGradientAreNotCounted) {
  for (const int ranks : {1, 2, 3}) {
    for (const auto& options : {four_passes(), four_shared_passes(), four_overlapped_passes()}) {
      for (const Drop& drop : drops()) {
        on_ranks(ranks, [&](Context& context) {
          SCOPED_TRACE(drop.name);
          Accumulation training(context, options);
          for (const int left_over : {1, 2, 3, 0}) {
            training.passes(left_over, 16);
            drop.act(training);
            training.passes(kPasses);
            training.optimizer->step();
            training.expect_gradient(kPasses);
            drop.act(training);
          }
        });
      }
    }
  }
}

// The reduction has begun, on this rank and perhaps on others.
TEST(PassesPerStep, GradientDroppedAfterLastPassIsUsageErrorThatNamesSkip) {
  for (const int ranks : {1, 2}) {
    for (const Drop& drop : drops()) {
      on_ranks(ranks, [&](Context& context) {
        SCOPED_TRACE(drop.name);
        Accumulation training(context);
        training.passes(kPasses);
        drop.act(training);
        EXPECT_THAT(error_of<UsageError>([&] { training.pass(1); }), HasSubstr("call skip() on all ranks"));
        EXPECT_THAT(error_of<UsageError>([&] { training.optimizer->step(); }), HasSubstr("skip()"));
      });
    }
  }
}

TEST(PassesPerStep, ExtraPassIsUsageErrorThatNamesNoSync) {
  on_ranks(2, [](Context& context) {
    Accumulation training(context);
    training.passes(kPasses);
    const auto told = error_of<UsageError>([&] { training.pass(1); });
    EXPECT_THAT(told, HasSubstr("no_sync()"));
    EXPECT_THAT(told, testing::Not(HasSubstr("skip()")));
  });
}

TEST(PassesPerStep, StepAfterSkipReducesOnlyItsOwnPasses) {
  on_ranks(2, [](Context& context) {
    Accumulation training(context);
    for (int step = 0; step < 3; ++step) {
      training.passes(kPasses, 16);
      training.optimizer->skip();
      training.optimizer->zero_grad(step % 2 == 0);
      training.passes(kPasses);
      training.optimizer->step();
      training.expect_gradient(kPasses);
      training.optimizer->zero_grad();
    }
  });
}

TEST(PassesPerStep, RanksMayDropDifferentNumbersOfPasses) {
  on_ranks(3, [](Context& context) {
    Accumulation training(context);
    for (int step = 0; step < 3; ++step) {
      training.passes((step + context.rank()) % 3, 16);
      training.optimizer->zero_grad(step == 1);
      training.passes(kPasses);
      training.optimizer->step();
      training.expect_gradient(kPasses);
      training.optimizer->zero_grad();
    }
  });
}

TEST(PassesPerStep, PassesUnderNoSyncAccumulateAndAreNotCounted) {
  for (const bool to_none : {true, false}) {
    on_ranks(2, [&](Context& context) {
      Accumulation training(context);
      for (int step = 0; step < 2; ++step) {
        training.passes(2, 16);
        training.optimizer->zero_grad(to_none);
        {
          const auto no_sync = training.optimizer->no_sync();
          training.passes(3);
        }
        training.passes(kPasses);
        training.optimizer->step();
        training.expect_gradient(3 + kPasses);
        training.optimizer->zero_grad();
      }
    });
  }
}

// A change between passes may look like a drop. The gradient is then handed over when the round closes.
TEST(PassesPerStep, GradientChangedBetweenPassesIsReducedOnce) {
  const std::vector<std::function<void(const at::Tensor&)>> changes = {
      [](const at::Tensor& weight) { weight.mutable_grad().mul_(2); },
      [](const at::Tensor& weight) { weight.mutable_grad() = weight.grad() * 2; },
      [](const at::Tensor& weight) { weight.grad().data().mul_(2); }};
  for (const auto& change : changes) {
    on_ranks(2, [&](Context& context) {
      Accumulation training(context);
      for (int step = 0; step < 2; ++step) {
        training.passes(2);
        change(training.model->weight);
        training.passes(2);
        training.optimizer->step();
        training.expect_gradient(6);
        training.optimizer->zero_grad();
      }
    });
  }
}

// With create_graph, autograd accumulates out of place.
TEST(PassesPerStep, PassWithCreateGraphIsCounted) {
  on_ranks(2, [](Context& context) {
    Accumulation training(context);
    for (int step = 0; step < 2; ++step) {
      training.pass(16);
      training.optimizer->zero_grad();
      for (int pass = 0; pass < kPasses; ++pass) {
        const at::Tensor loss = training.model->forward(torch::full({1, 8}, context.rank() + 1.0)).sum();
        loss.backward({}, /*retain_graph=*/std::nullopt, /*create_graph=*/pass % 2 == 1);
      }
      training.optimizer->step();
      training.expect_gradient(kPasses);
      training.optimizer->zero_grad();
    }
  });
}

// `rare` is reached by every other pass, `twice` two times by each.
TEST(PassesPerStep, ParametersReachedRarelyOrTwicePerPassAreReduced) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](Context& context) {
      const at::Tensor rare = torch::ones({4}).requires_grad_(), twice = torch::ones({4}).requires_grad_();
      auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{rare, twice}, kRate);
      DistributedOptimizer optimizer(context, sgd, NamedTensors{{"rare", rare}, {"twice", twice}}, four_passes());
      const auto pass = [&](int number) {
        at::Tensor loss = (twice * 2 + twice.exp() * 0).sum();
        if (number % 2 == 0) loss = loss + (rare * (context.rank() + 1)).sum();
        loss.backward();
      };
      for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < step + 1; ++i) pass(i);
        optimizer.zero_grad();
        for (int i = 0; i < kPasses; ++i) pass(i);
        optimizer.step();
        EXPECT_TRUE(twice.grad().eq(2 * kPasses).all().item<bool>());
        EXPECT_TRUE(rare.grad().eq(kPasses / 2 * (context.size() + 1) / 2.0).all().item<bool>());
        optimizer.zero_grad();
      }
    });
  }
}

}  // namespace
}  // namespace kolo::test

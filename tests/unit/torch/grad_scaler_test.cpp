#include "kolo/torch/grad_scaler.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <limits>
#include <set>
#include <stdexcept>

#include "kolo/error.h"
#include "support/thread_ranks.h"

namespace kolo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kRate = 0.25;

GradScalerOptions small_scale() { return {.init_scale = 8, .growth_interval = 3}; }

at::Tensor parameter(std::vector<float> values, at::ScalarType type = at::kFloat) {
  return torch::tensor(values).to(type).set_requires_grad(true);
}

// The gradient is `slope`, whatever the weight is.
at::Tensor line(const at::Tensor& weight, float slope) { return (weight * slope).sum(); }

TEST(GradScaler, WeightsEqualTrainingWithoutScaling) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor weight = parameter({1, 2}, type);
    torch::optim::SGD sgd({weight}, kRate);
    GradScaler scaler(small_scale());
    scaler.scale(line(weight, 3)).backward();
    EXPECT_EQ(weight.grad()[0].item<double>(), 24) << type;
    EXPECT_TRUE(scaler.step(sgd));
    EXPECT_EQ(weight.grad()[0].item<double>(), 3) << type;
    EXPECT_EQ(weight[1].item<double>(), 2 - kRate * 3) << type;
  }
}

TEST(GradScaler, MixedTypesAndMissingGradientsAreUnscaledAndChecked) {
  const std::vector<at::Tensor> weights{parameter({1}), parameter({1}, at::kHalf), parameter({1}),
                                        parameter({1}, at::kDouble)};
  torch::optim::SGD sgd(weights, kRate);
  GradScaler scaler(small_scale());
  scaler.scale(line(weights[0], 1) + line(weights[1], 2) + line(weights[3], 4)).backward();
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_EQ(weights[1].item<double>(), 0.5);
  EXPECT_EQ(weights[2].item<double>(), 1);
  EXPECT_EQ(weights[3].item<double>(), 0);
  scaler.update();
  for (std::size_t bad : {0, 1, 3}) {
    sgd.zero_grad();
    scaler.scale(line(weights[0], 1) + line(weights[1], 1) + line(weights[3], 1)).backward();
    weights[bad].mutable_grad().fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_FALSE(scaler.step(sgd)) << bad;
    scaler.update();
  }
  EXPECT_EQ(weights[3].item<double>(), 0);
}

TEST(GradScaler, ScaleHalvesOnOverflowAndGrowsAfterGoodSteps) {
  const at::Tensor weight = parameter({1});
  torch::optim::SGD sgd({weight}, kRate);
  GradScaler scaler(small_scale());
  const auto take = [&](float slope) {
    sgd.zero_grad();
    scaler.scale(line(weight, slope)).backward();
    scaler.step(sgd);
    scaler.update();
    return scaler.state().scale;
  };
  EXPECT_EQ(take(1), 8);
  EXPECT_EQ(take(1), 8);
  EXPECT_EQ(take(1), 16) << "grown after three good steps";
  EXPECT_EQ(take(1), 16);
  EXPECT_EQ(take(1), 16);
  EXPECT_EQ(take(kInfinity), 8);
  EXPECT_EQ(take(1), 8);
  EXPECT_EQ(take(1), 8) << "an overflow begins the count again";
  EXPECT_EQ(take(1), 16);
}

TEST(GradScaler, ScaleStaysInRangeOfFp32) {
  const at::Tensor weight = parameter({1});
  torch::optim::SGD sgd({weight}, kRate);
  GradScaler scaler({.init_scale = 1, .growth_factor = 1e20, .backoff_factor = 1e-20, .growth_interval = 1});
  const auto take = [&](float slope) {
    weight.mutable_grad() = torch::full({1}, slope);
    scaler.step(sgd);
    scaler.update();
    return scaler.state().scale;
  };
  EXPECT_EQ(take(1), 1e20);
  EXPECT_EQ(take(1), 1e20);
  EXPECT_DOUBLE_EQ(take(kInfinity), 1);
  take(kInfinity);
  EXPECT_EQ(take(kInfinity), std::numeric_limits<float>::min());
}

TEST(GradScaler, GradientsAreUnscaledBeforeClipping) {
  const at::Tensor weight = parameter({1, 1});
  torch::optim::SGD sgd({weight}, kRate);
  GradScaler scaler(small_scale());
  scaler.scale((weight * torch::tensor({3.0F, 4.0F})).sum()).backward();
  scaler.unscale_(sgd);
  EXPECT_FLOAT_EQ(static_cast<float>(torch::nn::utils::clip_grad_norm_(weight, 1.0)), 5);
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_NEAR(weight[1].item<double>(), 1 - kRate * 0.8, 1e-5);
}

TEST(GradScaler, CallsInWrongOrderAreUsageError) {
  const at::Tensor weight = parameter({1});
  torch::optim::SGD sgd({weight}, kRate);
  GradScaler scaler;
  EXPECT_THROW(scaler.update(), UsageError);
  scaler.scale(line(weight, 1)).backward();
  scaler.unscale_(sgd);
  EXPECT_THROW(scaler.unscale_(sgd), UsageError);
  EXPECT_THROW(scaler.update(), UsageError);
  scaler.step(sgd);
  EXPECT_THROW(scaler.step(sgd), UsageError);
  EXPECT_THROW(scaler.unscale_(sgd), UsageError);
  scaler.update();
  EXPECT_EQ(scaler.state().good_steps, 1);
}

TEST(GradScaler, InvalidOptionsAndStatesAreUsageError) {
  EXPECT_THROW(GradScaler({.init_scale = 0}), UsageError);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), UsageError);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), UsageError);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), UsageError);
  GradScaler scaler;
  EXPECT_THROW(scaler.load({std::numeric_limits<double>::quiet_NaN(), 0}), UsageError);
  EXPECT_THROW(scaler.load({4, -1}), UsageError);
  EXPECT_EQ(scaler.state().scale, 65536) << "a state that is refused changes nothing";
  scaler.load({4, 7});
  EXPECT_EQ(scaler.state().scale, 4);
  EXPECT_EQ(scaler.state().good_steps, 7);
}

// --- ranks --------------------------------------------------------------------------------------------------------

class GradScalerOfRanks : public testing::TestWithParam<int> {
 protected:
  struct Rank {
    Rank(Context& context, const GradScalerOptions& options) : scaler(context, options) {}
    at::Tensor weight = parameter({1, 2});
    std::shared_ptr<torch::optim::SGD> sgd =
        std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(kRate));
    GradScaler scaler;
    [[nodiscard]] double value() const { return weight[0].item<double>(); }
  };

  // body(rank, context, its objects), each rank in a thread.
  template <class Body>
  void run(Body body) {
    const auto contexts = Context::create_local(GetParam());
    test::run_ranks(GetParam(), [&](int rank) {
      at::set_num_threads(1);
      Context& context = *contexts[static_cast<std::size_t>(rank)];
      context.run([&] {
        Rank mine(context, small_scale());
        body(rank, context, mine);
      });
    });
  }
  [[nodiscard]] int last() const { return GetParam() - 1; }

  // Between the round and the decision no round is open; the others wait for the decision. They hear of it, and the
  // next step, of the same scaler, is a good one again.
  void fail_before_the_decision(const std::set<int>& failing, bool unscales) {
    const auto contexts = Context::create_local(GetParam());
    test::run_ranks(GetParam(), [&](int rank) {
      at::set_num_threads(1);
      Context& context = *contexts[static_cast<std::size_t>(rank)];
      Rank mine(context, small_scale());
      DistributedOptimizer optimizer(context, mine.sgd, NamedTensors{{"weight", mine.weight}});
      const auto step = [&](bool fails) {
        optimizer.zero_grad();
        mine.scaler.scale(line(mine.weight, 2)).backward();
        if (unscales) {
          mine.scaler.unscale_(optimizer);
        } else {
          optimizer.synchronize();
        }
        if (fails) throw std::runtime_error("no more");
        const bool stepped = mine.scaler.step(optimizer);
        mine.scaler.update();
        return stepped;
      };
      EXPECT_TRUE(context.run([&] { return step(false); }));
      if (failing.contains(rank)) {
        EXPECT_THROW(context.run([&] { step(true); }), std::runtime_error);
      } else {
        EXPECT_THROW(context.run([&] { step(false); }), PeerFailedError) << "rank " << rank;
      }
      EXPECT_EQ(mine.value(), 1 - kRate * 2) << "rank " << rank;
      EXPECT_TRUE(context.run([&] { return step(false); })) << "rank " << rank;
      EXPECT_EQ(mine.value(), 1 - kRate * 4) << "rank " << rank;
      EXPECT_EQ(mine.scaler.state().good_steps, 2);
    });
  }
};

TEST_P(GradScalerOfRanks, OverflowOnOneRankIsSkippedByAllRanks) {
  run([&](int rank, Context& context, Rank& mine) {
    DistributedOptimizer optimizer(context, mine.sgd, NamedTensors{{"weight", mine.weight}});
    double expected = 1;
    for (int step = 0; step < 6; ++step) {
      const bool overflow = step == 1 || step == 4;
      const double scale = mine.scaler.state().scale;
      optimizer.zero_grad();
      mine.scaler.scale(line(mine.weight, overflow && rank == last() ? kInfinity : 2)).backward();
      EXPECT_EQ(mine.scaler.step(optimizer), !overflow) << "rank " << rank << ", step " << step;
      if (!overflow) expected -= kRate * 2;
      EXPECT_EQ(mine.value(), expected) << "rank " << rank << ", step " << step;
      mine.scaler.update();
      EXPECT_EQ(mine.scaler.state().scale, overflow ? scale / 2 : scale);
    }
  });
}

TEST_P(GradScalerOfRanks, SecondStepBeforeUpdateIsUsageErrorAndChangesNothing) {
  run([&](int, Context& context, Rank& mine) {
    DistributedOptimizer optimizer(context, mine.sgd, NamedTensors{{"weight", mine.weight}});
    for (int step = 1; step <= 2; ++step) {
      optimizer.zero_grad();
      mine.scaler.scale(line(mine.weight, 2)).backward();
      EXPECT_TRUE(mine.scaler.step(optimizer));
      EXPECT_THROW(mine.scaler.step(optimizer), UsageError);
      EXPECT_THROW(mine.scaler.unscale_(optimizer), UsageError);
      mine.scaler.update();
      EXPECT_EQ(mine.value(), 1 - step * kRate * 2);
    }
  });
}

// After its round is closed, the wrapped optimizer may be unscaled like one without ranks.
TEST_P(GradScalerOfRanks, GradientsUnscaledThroughWrappedOptimizerAreNotUnscaledAgain) {
  run([&](int, Context& context, Rank& mine) {
    DistributedOptimizer optimizer(context, mine.sgd, NamedTensors{{"weight", mine.weight}});
    for (int step = 1; step <= 2; ++step) {
      optimizer.zero_grad();
      mine.scaler.scale(line(mine.weight, 2)).backward();
      optimizer.synchronize();
      mine.scaler.unscale_(optimizer.optimizer());
      EXPECT_TRUE(mine.scaler.step(optimizer));
      mine.scaler.update();
      EXPECT_EQ(mine.value(), 1 - step * kRate * 2);
    }
  });
}

// Only some ranks have an infinite gradient, so no rank can decide alone.
TEST_P(GradScalerOfRanks, DifferentGradientsGiveOneDecisionOnAllRanks) {
  run([&](int rank, Context& context, Rank& mine) {
    mine.weight.mutable_grad() = torch::full({2}, rank == last() ? kInfinity : 8.0F);
    EXPECT_FALSE(mine.scaler.step(*mine.sgd)) << "rank " << rank;
    mine.scaler.update();
    EXPECT_EQ(mine.scaler.state().scale, 4);
    EXPECT_EQ(mine.value(), 1);
    DistributedOptimizer optimizer(context, mine.sgd, NamedTensors{{"weight", mine.weight}});
    optimizer.zero_grad();
    mine.scaler.scale(line(mine.weight, 2)).backward();
    optimizer.synchronize();
    if (rank == 0) mine.weight.mutable_grad().fill_(kInfinity);
    EXPECT_FALSE(mine.scaler.step(optimizer)) << "rank " << rank;
    mine.scaler.update();
    EXPECT_EQ(mine.value(), 1);
    EXPECT_EQ(mine.scaler.state().scale, 2);
  });
}

// A rank without gradients runs no hook in the next step. The skipped round must be closed on that rank too.
TEST_P(GradScalerOfRanks, RankMayHaveNoGradientAfterSkippedStep) {
  run([&](int rank, Context& context, Rank& mine) {
    DistributedOptimizer optimizer(context, mine.sgd, NamedTensors{{"weight", mine.weight}}, {.op = ReduceOp::sum});
    mine.scaler.scale(line(mine.weight, rank == 0 ? kInfinity : 1)).backward();
    EXPECT_FALSE(mine.scaler.step(optimizer));
    mine.scaler.update();
    optimizer.zero_grad();
    if (rank == last()) mine.scaler.scale(line(mine.weight, 1)).backward();
    EXPECT_TRUE(mine.scaler.step(optimizer));
    EXPECT_EQ(mine.value(), 1 - kRate);
  });
}

TEST_P(GradScalerOfRanks, FailureBeforeDecisionReachesAllRanks) { fail_before_the_decision({last()}, false); }
TEST_P(GradScalerOfRanks, FailureAfterUnscaleReachesAllRanks) { fail_before_the_decision({last()}, true); }
TEST_P(GradScalerOfRanks, TwoFailuresInOneStepReachAllRanksOnce) {
  for (const bool unscales : {false, true}) fail_before_the_decision({last(), last() / 2}, unscales);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GradScalerOfRanks, testing::Values(1, 2, 4));

}  // namespace
}  // namespace kolo

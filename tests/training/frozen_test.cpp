// Parameters that are no longer reduced: frozen, removed from the optimizer, or frozen before the optimizer was wrapped
// again. A reduced gradient is equal on all ranks and may stay; any other gradient would make the weights differ.
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <memory>
#include <optional>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "training/one_weight.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;

// The wrapped optimizer would use a gradient that was not averaged.
TEST(FrozenParameter, GradientOfOneRankIsUsageError) {
  on_ranks(2, [](Context& context) {
    Training frozen_amid(context);
    frozen_amid.step();
    frozen_amid.optimizer.zero_grad();
    {
      const auto no_sync = frozen_amid.optimizer.no_sync();
      (frozen_amid.weight * (context.rank() + 1)).sum().backward();
    }
    frozen_amid.weight.requires_grad_(false);
    EXPECT_THAT(error_of<UsageError>([&] { frozen_amid.optimizer.step(); }),
                HasSubstr("'weight' requires no gradient but has one, which only this rank computed"));
    Training zeroed(context);
    zeroed.weight.requires_grad_(false);
    zeroed.weight.mutable_grad() = torch::zeros({4});
    zeroed.optimizer.step();
    Training by_hand(context);
    by_hand.weight.requires_grad_(false);
    by_hand.weight.mutable_grad() = torch::ones({4}) * (context.rank() + 1);
    EXPECT_THAT(error_of<UsageError>([&] { by_hand.optimizer.step(); }), HasSubstr("mutable_grad().reset()"));
  });
}

TEST(FrozenParameter, GradientReducedBeforeFreezingIsAccepted) {
  for (const bool zeroes : {false, true}) {
    on_ranks(2, [&](Context& context) {
      Training training(context);
      training.step();
      training.weight.requires_grad_(false);
      for (int step = 0; step < 3; ++step) {
        if (zeroes) training.optimizer.zero_grad(false);
        training.optimizer.step();
      }
      training.weight.requires_grad_(true);
      training.step();
      training.expect_equal_weights();
    });
  }
}

TEST(FrozenParameter, StepSucceedsAfterGradientIsReset) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    at::Tensor frozen = torch::ones({4});
    training.inner->param_groups()[0].params().push_back(frozen);
    for (int step = 0; step < 4; ++step) {
      training.backward();
      if (step == 2) {
        frozen.mutable_grad() = torch::ones({4});
        EXPECT_THAT(error_of<UsageError>([&] { training.optimizer.step(); }), HasSubstr("requires no gradient"));
        frozen.mutable_grad().reset();
      }
      training.optimizer.step();
    }
    EXPECT_EQ(training.weight.grad()[0].item<float>(), 1.5);
  });
}

// One rank clears the reduced gradient of a frozen parameter, and the other continues to update with it.
TEST(FrozenParameter, UpdateOnOneRankOnlyIsMismatchErrorAfterUnfreezing) {
  for (const bool to_none : {true, false}) {
    on_ranks(2, [&](Context& context) {
      Training training(context);
      at::Tensor frozen = torch::ones({4}).requires_grad_(true);
      training.inner->add_param_group(torch::optim::OptimizerParamGroup({frozen}));
      const auto backward = [&] { ((training.weight + frozen) * (context.rank() + 1)).sum().backward(); };
      backward();
      training.optimizer.step();
      frozen.requires_grad_(false);
      const bool has_batch = context.rank() == 0;
      if (has_batch) training.optimizer.zero_grad(to_none);
      if (has_batch) backward();
      training.optimizer.step();
      training.step();
      frozen.requires_grad_(true);
      EXPECT_THAT(error_of<MismatchError>([&] { training.step(); }),
                  HasSubstr("parameter 'param_group.1.0' of rank 1 is not that of rank 0"));
    });
  }
}

TEST(FrozenParameter, ReducedGradientIsAcceptedAfterOptimizerIsWrappedAgain) {
  on_ranks(2, [](Context& context) {
    const at::Tensor frozen = torch::ones({4}).requires_grad_(true);
    const at::Tensor other = torch::ones({4}).requires_grad_(true);
    auto sgd =
        std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{frozen, other}, torch::optim::SGDOptions(0.125));
    for (int time = 0; time < 3; ++time) {
      DistributedOptimizer optimizer(context, sgd, NamedTensors{{"frozen", frozen}, {"other", other}});
      for (int step = 0; step < 2; ++step) {
        other.mutable_grad().reset();
        if (time == 0) frozen.mutable_grad().reset();
        const at::Tensor loss = ((time == 0 ? other + frozen : other) * (context.rank() + 1)).sum();
        loss.backward();
        optimizer.step();
      }
      frozen.requires_grad_(false);
    }
    EXPECT_EQ(frozen[0].item<float>(), 1 - 6 * 0.125F * 1.5F);
    EXPECT_EQ(other[0].item<float>(), 1 - 6 * 0.125F * 1.5F);
  });
}

TEST(DistributedOptimizer, RemovedParameterIsReleased) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](Context& context) {
      Training training(context);
      using Weak = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
      std::optional<Weak> watched;
      {
        at::Tensor other = torch::ones({4}).requires_grad_(true);
        training.optimizer.add_param_group(torch::optim::OptimizerParamGroup({other}), NamedTensors{{"other", other}});
        ((training.weight + other) * (context.rank() + 1)).sum().backward();
        training.optimizer.step();
        watched.emplace(other.getIntrusivePtr());
      }
      training.inner->param_groups().pop_back();
      training.inner->state().clear();
      for (int step = 0; step < 2; ++step) training.step();
      EXPECT_TRUE(watched->expired());
      at::Tensor next = torch::ones({4}).requires_grad_(true);  // may have its name
      training.optimizer.add_param_group(torch::optim::OptimizerParamGroup({next}), NamedTensors{{"other", next}});
      training.step();
    });
  }
}

}  // namespace
}  // namespace kolo::test

// Mistakes of programs that would otherwise go unnoticed: each is an error on all ranks, and the next step works.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <thread>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "training/one_weight.h"

namespace kolo::test {
namespace {

using testing::HasSubstr;

// Reduction may have begun in backward(): the change would be lost, on some ranks in part.
TEST(DistributedOptimizer, GradientChangedAfterBackwardIsUsageError) {
  const std::vector<std::function<void(const at::Tensor&)>> changes = {
      [](const at::Tensor& weight) { torch::nn::utils::clip_grad_norm_({weight}, 0.5); },
      [](const at::Tensor& weight) { weight.mutable_grad().mul_(2); },
      [](const at::Tensor& weight) { weight.mutable_grad() = torch::zeros({4}); }};
  for (const auto& change : changes) {
    for (const int good_steps : {0, 2}) {
      on_ranks(2, [&](Context& context) {
        Training training(context);
        for (int step = 0; step < good_steps; ++step) training.step();
        training.backward();
        change(training.weight);
        const at::Tensor before = training.weight.detach().clone();
        const auto told = error_of<UsageError>([&] { training.optimizer.step(); });
        EXPECT_THAT(told, HasSubstr("'weight' was changed after its reduction had started"));
        EXPECT_THAT(told, HasSubstr("call synchronize() first"));
        EXPECT_TRUE(training.weight.equal(before));
      });
    }
  }
}

// Autograd cuts the gradients of concatenated parameters out of one tensor, which has one version counter. An addition
// to one gradient does not change the other.
TEST(DistributedOptimizer, GradientsCutFromOneTensorAreNotReportedAsChanged) {
  on_ranks(2, [](Context& context) {
    const at::Tensor a = torch::ones({2, 3}).requires_grad_(true), b = torch::ones({4, 3}).requires_grad_(true);
    auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{a, b}, torch::optim::SGDOptions(0.125));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"a", a}, {"b", b}}, {.passes_per_step = 2});
    const auto pass = [&] { (torch::cat({a, b}) * (context.rank() + 1)).sum().backward(); };
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      pass();
      pass();
      optimizer.step();
      EXPECT_TRUE(a.grad().eq(3).all().item<bool>());
      EXPECT_TRUE(b.grad().eq(3).all().item<bool>());
    }
  });
}

TEST(DistributedOptimizer, DetachedAndInferenceModeGradientsAreReduced) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    for (int step = 0; step < 3; ++step) {
      training.backward();
      training.weight.mutable_grad() = training.weight.grad().detach();
      training.optimizer.step();
    }
    for (int step = 0; step < 3; ++step) {
      {
        const c10::InferenceMode inference;
        training.weight.mutable_grad() = torch::ones({4}) * step;
      }
      training.optimizer.step();
      EXPECT_TRUE(training.weight.grad().eq(step).all().item<bool>());
    }
  });
}

TEST(DistributedOptimizer, GradientMayBeClippedAfterSynchronizeOrWithOneRank) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](Context& context) {
      Training training(context);
      for (int step = 0; step < 3; ++step) {
        training.backward();
        if (ranks > 1) training.optimizer.synchronize();
        torch::nn::utils::clip_grad_norm_({training.weight}, 0.5);
        EXPECT_NEAR(training.weight.grad().norm().item<double>(), 0.5, 1e-5);
        training.optimizer.step();
      }
    });
  }
}

TEST(DistributedOptimizer, SkipOnOneRankIsNoErrorAfterBroadcast) {
  on_ranks(2, [](Context& context) {
    Training training(context, {.compare_weights_every = 1});
    for (int step = 0; step < 6; ++step) {
      training.backward();
      const bool leaves_out = step % 2 == 1 && context.rank() == 1;
      leaves_out ? training.optimizer.skip() : static_cast<void>(training.optimizer.step());
      if (step % 2 == 1) training.start_again();
    }
    training.expect_equal_weights();
  });
}

TEST(DistributedOptimizer, SkipOnAllRanksIsNoError) {
  on_ranks(2, [](Context& context) {
    Training training(context, {.compare_weights_every = 1});
    for (int step = 0; step < 6; ++step) {
      training.backward();
      training.optimizer.synchronize();
      if (step % 3 == 0) training.optimizer.step();
      if (step % 3 == 1) training.optimizer.skip();
    }
    training.expect_equal_weights();
  });
}

TEST(StepFingerprint, DifferentLearningRatesAreMismatchErrorInNextRound) {
  on_ranks(3, [](Context& context) {
    Training training(context);
    training.step();
    training.set_rate(0.0625);  // on all ranks
    training.step();
    training.step();
    if (context.rank() == 1) training.set_rate(0.25);
    training.step();
    const auto told = error_of<MismatchError>([&] { training.step(); });
    EXPECT_THAT(told, HasSubstr("lr=0.0625, step fingerprint"));
    EXPECT_THAT(told, HasSubstr("lr=0.25, step fingerprint"));
    EXPECT_THAT(told, HasSubstr("on rank 1"));
    EXPECT_THAT(told, HasSubstr("call broadcast_parameters() and broadcast_optimizer_state()"));
    training.start_again();
    for (int step = 0; step < 3; ++step) training.step();
    training.expect_equal_weights();
  });
}

// The ranks have equal rates again when the difference is found.
TEST(StepFingerprint, DifferenceInOneStepOnlyIsMismatchErrorInNextRound) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    training.step();
    training.set_rate(context.rank() == 1 ? 0.25 : 0.125);
    training.step();
    training.set_rate(0.125);
    EXPECT_THAT(error_of<MismatchError>([&] { training.step(); }), HasSubstr("settings are \"step fingerprint "));
  });
}

TEST(StepFingerprint, SkippedStepIsNotCompared) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    training.step();
    training.set_rate(0.125 * (context.rank() + 1));
    training.backward();
    training.optimizer.skip();
    training.set_rate(0.125);
    for (int step = 0; step < 2; ++step) training.step();
    training.expect_equal_weights();
  });
}

TEST(StepFingerprint, IsNotComparedWithoutCompareWeights) {
  on_ranks(2, [](Context& context) {
    Training training(context, {.compare_weights = false});
    for (int step = 0; step < 4; ++step) {
      if (step > 0) training.set_rate(0.125 * (context.rank() + 1));
      training.step();
    }
  });
}

// Rank 0 alone has loaded a checkpoint, and its optimizer state was not broadcast.
TEST(CompareWeights, DifferentOptimizerStateIsMismatchErrorUntilBroadcast) {
  const auto make = [](bool adam, const at::Tensor& weight) -> std::shared_ptr<torch::optim::Optimizer> {
    if (adam) return std::make_shared<torch::optim::Adam>(std::vector<at::Tensor>{weight});
    return std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight},
                                               torch::optim::SGDOptions(0.125).momentum(0.5));
  };
  for (const bool adam : {false, true}) {
    on_ranks(2, [&](Context& context) {
      const at::Tensor weight = torch::ones({4}).requires_grad_(true);
      const auto inner = make(adam, weight);
      if (context.rank() == 0) {
        weight.sum().backward();
        inner->step();
      }
      broadcast_parameters(context, NamedTensors{{"weight", weight}});
      DistributedOptimizer optimizer(context, inner, NamedTensors{{"weight", weight}});
      const auto step = [&] {
        optimizer.zero_grad();
        weight.sum().backward();
        optimizer.step();
      };
      EXPECT_THAT(error_of<MismatchError>(step), HasSubstr("broadcast_optimizer_state()"));
      broadcast_optimizer_state(context, *inner);
      step();
    });
  }
}

TEST(Broadcast, DifferentRootsAreMismatchError) {
  on_ranks(3, [](Context& context) {
    Training training(context);
    const NamedTensors named{{"weight", training.weight}};
    const Rank root = context.rank() == 2 ? 1 : 0;
    const auto told = error_of<MismatchError>([&] { broadcast_parameters(context, named, root); });
    EXPECT_THAT(told, HasSubstr("broadcast_parameters: rank 0 has root 0, rank 2 has root 1"));
    EXPECT_THAT(error_of<MismatchError>([&] { broadcast_optimizer_state(context, *training.inner, root); }),
                HasSubstr("torch::optim::SGD, root 1"));
    at::Tensor tensor = torch::ones({4});
    EXPECT_THAT(error_of<MismatchError>([&] { broadcast_(context, tensor, root, "named"); }),
                HasSubstr("root 0 on rank 0, 1 on rank 2"));
  });
}

TEST(Broadcast, DifferentCallsOnRanksAreMismatchErrorThatNamesBoth) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    const NamedTensors named{{"weight", training.weight}};
    const std::vector<std::pair<std::string, std::function<void()>>> calls{
        {"broadcast_parameters", [&] { broadcast_parameters(context, named); }},
        {"broadcast_optimizer_state", [&] { broadcast_optimizer_state(context, *training.inner); }},
        {"verify_model", [&] { verify_model(context, named); }}};
    for (const auto& [first, call_of_rank_0] : calls) {
      for (const auto& [second, call_of_rank_1] : calls) {
        if (first == second) continue;
        const auto told = error_of<MismatchError>(context.rank() == 0 ? call_of_rank_0 : call_of_rank_1);
        EXPECT_THAT(told, HasSubstr("rank 0 in " + first + ", rank 1 in " + second));
      }
    }
  });
}

TEST(Broadcast, RootOutsideWorldIsUsageErrorOfEveryCall) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    at::Tensor tensor = torch::ones({4});
    for (const Rank root : {-1, 2}) {
      BroadcastOptions direct;
      direct.data = static_cast<std::byte*>(tensor.mutable_data_ptr());
      direct.bytes = tensor.nbytes();
      direct.root = root;
      const std::vector<std::function<void()>> calls{
          [&] {
            broadcast_parameters(context, NamedTensors{{"weight", training.weight}}, root);
          },
          [&] { broadcast_optimizer_state(context, *training.inner, root); },
          [&] { broadcast_(context, tensor, root, "named"); },
          [&] { context.communicator().broadcast(direct, std::chrono::seconds(20)); },
      };
      for (const auto& call : calls) {
        EXPECT_THAT(error_of<UsageError>(call), HasSubstr("root " + std::to_string(root)));
      }
    }
  });
}

// An optimizer updates the parameters that have a gradient: one rank has kept an old gradient.
TEST(CompareWeights, ParameterUpdatedByOneRankOnlyIsMismatchError) {
  on_ranks(2, [](Context& context) {
    const at::Tensor used = torch::ones({4}).requires_grad_(true), rare = torch::ones({4}).requires_grad_(true);
    auto sgd =
        std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{used, rare}, torch::optim::SGDOptions(0.125));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"used", used}, {"rare", rare}},
                                   {.compare_weights_every = 1});
    const auto step = [&](bool resets, bool uses) {
      if (resets) optimizer.zero_grad();
      (uses ? (used + rare).sum() : used.sum()).backward();
      optimizer.step();
    };
    step(true, true);
    step(context.rank() == 0, false);
    const auto told = error_of<MismatchError>([&] { step(true, true); });
    EXPECT_THAT(told, HasSubstr("parameter 'rare' of rank 1 is not that of rank 0"));
  });
}

TEST(CompareWeights, DifferentOptimizerOptionsAreMismatchErrorWithGroupAndBothValues) {
  on_ranks(3, [](Context& context) {
    const at::Tensor first = torch::ones({4}).requires_grad_(true), second = torch::ones({4}).requires_grad_(true);
    torch::optim::AdamOptions odd(0.125);
    if (context.rank() == 2) odd.betas({0.9, 0.99});
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<at::Tensor>{first});
    groups.emplace_back(std::vector<at::Tensor>{second}, std::make_unique<torch::optim::AdamOptions>(odd));
    auto adam = std::make_shared<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.125));
    DistributedOptimizer optimizer(context, adam, NamedTensors{{"first", first}, {"second", second}});
    (first + second).sum().backward();
    EXPECT_THAT(error_of<MismatchError>([&] { optimizer.step(); }),
                HasSubstr("settings are \"group 1 betas=(0.9,0.999)\" on rank 0 and \"group 1 betas=(0.9,0.99)\" on "
                          "rank 2"));
  });
}

// The round is open on some ranks during the broadcast, and not on others.
TEST(Broadcast, BetweenBackwardAndStepDoesNotAffectOpenRound) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    const NamedTensors buffers{{"buffer", torch::zeros({3})}};
    for (int step = 0; step < 6; ++step) {
      training.optimizer.zero_grad();
      if ((step + context.rank()) % 2 == 0) (training.weight * 2).sum().backward();
      broadcast_parameters(context, buffers);
      training.optimizer.step();
    }
    training.expect_equal_weights();
  });
}

TEST(DistributedOptimizer, SkipOnOneRankIsNoErrorWhenEachEpochHasItsOwnThread) {
  on_ranks(2, [](Context& context) {
    Training training(context, {.compare_weights_every = 1});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::thread([&] {
        training.step();
        training.backward();
        if (context.rank() == 0) {
          training.optimizer.skip();
        } else {
          training.optimizer.step();
        }
      }).join();
      training.start_again();
    }
    training.step();
    training.expect_equal_weights();
  });
}

// Moves the gradient out of the parameter, as programs do that keep gradients elsewhere until step().
class TakesAway final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit TakesAway(at::Tensor& into) : into_(into) {}
  void operator()(const at::Tensor& tensor) override {
    into_ = tensor.grad();
    tensor.mutable_grad().reset();
  }

 private:
  at::Tensor& into_;
};

TEST(DistributedOptimizer, GradientRemovedByHookAndReturnedBeforeStepIsReduced) {
  on_ranks(2, [](Context& context) {
    at::Tensor elsewhere;
    const at::Tensor weight = torch::ones({4}).requires_grad_(true);
    torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<TakesAway>(elsewhere));
    auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(0.125));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"weight", weight}});
    for (int step = 1; step <= 3; ++step) {
      optimizer.zero_grad();
      (weight * (context.rank() + 1)).sum().backward();
      EXPECT_FALSE(weight.grad().defined());
      weight.mutable_grad() = elsewhere;
      optimizer.step();
      EXPECT_TRUE(weight.eq(1 - step * 0.125 * 1.5).all().item<bool>());
    }
  });
}

TEST(DistributedOptimizer, BackwardAccumulatesAfterStepInInferenceMode) {
  on_ranks(2, [](Context& context) {
    Training training(context);
    for (int step = 0; step < 3; ++step) {
      training.optimizer.zero_grad(false);
      (training.weight * 2).sum().backward();
      const c10::InferenceMode inference;
      training.optimizer.step();
    }
    training.expect_equal_weights();
  });
}

// The Context must outlive the optimizer. If it does not, step() throws, and the destructor does no harm.
TEST(DistributedOptimizer, StepAfterContextIsDestroyedIsUsageError) {
  for (const int ranks : {1, 2}) {
    auto contexts = Context::create_local(ranks);
    run_ranks(ranks, [&](int rank) {
      auto context = std::move(contexts[static_cast<std::size_t>(rank)]);
      Training training(*context);
      training.step();
      training.backward();
      context->communicator().barrier(
          std::chrono::seconds(20));  // the first that leaves would end the others' backward
      context.reset();
      EXPECT_THAT(error_of<UsageError>([&] { training.optimizer.step(); }), HasSubstr("its Context was destroyed"));
      training.backward();  // somebody else may train these weights by now
      EXPECT_THAT(error_of<UsageError>([&] { training.optimizer.step(); }), HasSubstr("its Context was destroyed"));
    });
  }
}

TEST(Shutdown, LaterCollectiveCallsAreUsageErrorAndBackwardWorks) {
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [](Context& context) {
      Training training(context);
      GradScaler scaler(context);
      const NamedTensors named{{"weight", training.weight}};
      training.step();
      context.communicator().barrier(std::chrono::seconds(20));
      context.shutdown();
      const std::vector<std::function<void()>> calls{
          [&] { training.optimizer.step(); },
          [&] { training.optimizer.step([&] { return training.weight.sum(); }); },
          [&] { training.optimizer.synchronize(); },
          [&] { training.optimizer.skip(); },
          [&] { static_cast<void>(scaler.step(training.optimizer)); },
          [&] { DistributedOptimizer(context, training.inner, named); },
          [&] { verify_model(context, named); },
          [&] { broadcast_parameters(context, named); },
          [&] { broadcast_optimizer_state(context, *training.inner); },
          [&] { allreduce_(context, training.weight.detach(), ReduceOp::average, "after"); },
          [&] { broadcast_(context, training.weight.detach(), 0, "after"); },
          [&] { static_cast<void>(allgather(context, training.weight.detach(), "after")); },
          [&] { static_cast<void>(allreduce_metrics(context, {1.0}, ReduceOp::average, "after")); },
          [&] { static_cast<void>(use_cuda(context)); },
      };
      for (const bool has_gradient : {false, true}) {
        if (has_gradient) training.backward();  // the program's own affair
        for (std::size_t i = 0; i < calls.size(); ++i) {
          EXPECT_THAT(error_of<UsageError>(calls[i]), HasSubstr("shutdown()")) << "call " << i;
        }
      }
    });
  }
}

// After the errors, the same ranks train with another optimizer.
TEST(DistributedOptimizer, NoTrainableParameterIsUsageError) {
  const auto frozen = [] { return torch::ones({4}); };
  const std::vector<std::vector<std::vector<at::Tensor>>> all = {
      {{}}, {{}, {}}, {{frozen()}}, {{frozen(), frozen()}, {}}, {{frozen()}, {frozen()}}};
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](Context& context) {
      for (const auto& groups : all) {
        for (const bool fused : {false, true}) {
          std::vector<torch::optim::OptimizerParamGroup> made(groups.begin(), groups.end());
          std::shared_ptr<torch::optim::Optimizer> inner;
          if (fused) {
            inner = std::make_shared<FusedSGD>(made, torch::optim::SGDOptions(0.125));
          } else {
            inner = std::make_shared<torch::optim::SGD>(made, torch::optim::SGDOptions(0.125));
          }
          NamedTensors names;
          for (const auto& group : groups) {
            for (const auto& tensor : group) names.emplace_back(std::to_string(names.size()), tensor);
          }
          const auto told = error_of<UsageError>([&] { DistributedOptimizer wrapped(context, inner, names); });
          EXPECT_THAT(told, HasSubstr("none of the optimizer's " + std::to_string(names.size()) +
                                      " parameters requires a gradient"));
        }
      }
      Training training(context);
      training.step();
      training.expect_equal_weights();
    });
  }
}

}  // namespace
}  // namespace kolo::test

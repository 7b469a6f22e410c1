// Weights that drift apart in the course of training: what a warning names at the start, and what the comparison of
// weights finds every few rounds.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <mutex>

#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "training/one_weight.h"

namespace kolo::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kEvery = 5;

void change_on(const Training& training, bool here) {
  const torch::NoGradGuard no_grad;
  if (here) training.weight[2] += 1e-6;
}

// The first comparison is after round 1, the next ones after rounds 6 and 11.
TEST(CompareWeightsEvery, WeightChangedOnOneRankIsMismatchErrorAtNextComparison) {
  on_ranks(3, [](Context& context) {
    Training training(context, {.compare_weights_every = kEvery});
    for (int step = 0; step < 7; ++step) training.step();
    change_on(training, context.rank() == 1);
    for (int step = 7; step < 10; ++step) training.step();
    const at::Tensor before = training.weight.detach().clone();
    const auto told = error_of<MismatchError>([&] { training.step(); });
    EXPECT_THAT(told, AllOf(HasSubstr("parameter 'weight' of rank 1 is not that of rank 0"), HasSubstr("max_norm"),
                            HasSubstr("thread count, CPU capability or library versions"), HasSubstr("hardware fault"),
                            HasSubstr("No weight was updated in this step")));
    EXPECT_TRUE(training.weight.equal(before));
    EXPECT_THAT(error_of<MismatchError>([&] { training.step(); }), HasSubstr("is not that of rank 0"));  // still
    training.start_again();
    for (int step = 0; step < 12; ++step) training.step();
    training.expect_equal_weights();
  });
}

TEST(CompareWeightsEvery, StepOmittedByOneRankIsMismatchErrorAtNextComparison) {
  for (const bool forgets : {false, true}) {
    on_ranks(3, [&](Context& context) {
      Training training(context, {.compare_weights_every = kEvery});
      for (int step = 0; step < 3; ++step) training.step();
      training.backward();
      training.optimizer.synchronize();
      if (context.rank() != 1) {
        training.optimizer.step();
      } else if (!forgets) {
        training.optimizer.skip();
      }
      training.step();
      EXPECT_THAT(error_of<MismatchError>([&] { training.step(); }),
                  AllOf(HasSubstr("parameter 'weight' of rank 1 is not that of rank 0"),
                        HasSubstr("a step() that only some ranks take")));
      training.start_again();
      for (int step = 0; step < 6; ++step) training.step();
      training.expect_equal_weights();
    });
  }
}

TEST(CompareWeightsEvery, FailedAndSkippedRoundsCountOnAllRanks) {
  on_ranks(2, [](Context& context) {
    Training training(context, {.compare_weights_every = kEvery});
    training.step();
    training.backward();
    training.optimizer.skip();
    if (context.rank() == 0) {
      EXPECT_THROW(context.run([] { throw std::runtime_error("no more data"); }), std::runtime_error);
    } else {
      EXPECT_THROW(training.step(), PeerFailedError);
    }
    training.step();
    change_on(training, context.rank() == 1);
    std::string told;
    for (int step = 0; step < kEvery && !told.starts_with("ranks have different weights"); ++step) {
      told = error_of<MismatchError>([&] { training.step(); });
    }
    EXPECT_THAT(told, HasSubstr("'weight' of rank 1"));
    const auto rounds = static_cast<double>(training.optimizer.rounds());
    EXPECT_THAT(allreduce_metrics(context, {rounds, -rounds}, ReduceOp::max, "rounds"), ElementsAre(rounds, -rounds));
  });
}

TEST(CompareWeightsEvery, ZeroOrCompareWeightsOffDisablesPeriodicComparison) {
  for (const DistributedOptions& options : {DistributedOptions{.compare_weights_every = 0},
                                            DistributedOptions{.compare_weights = false, .compare_weights_every = 1}}) {
    on_ranks(2, [&](Context& context) {
      Training training(context, options);
      training.step();
      change_on(training, context.rank() == 1);
      for (int step = 0; step < 5; ++step) training.step();
      training.backward();
      context.rank() == 1 ? training.optimizer.skip() : static_cast<void>(training.optimizer.step());
      for (int step = 0; step < 5; ++step) training.step();
    });
  }
}

TEST(CompareWeightsEvery, OverlappedUpdateLeavesWeightsUnchangedWhenComparisonFails) {
  on_ranks(2, [](Context& context) {
    const at::Tensor weight = torch::ones({4}).requires_grad_(true);
    auto sgd = std::make_shared<FusedSGD>(std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(0.125));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"weight", weight}},
                                   {.compare_weights_every = 2, .overlap_update = true});
    const auto step = [&] {
      optimizer.zero_grad();
      weight.sum().backward();
      optimizer.step();
    };
    for (int i = 0; i < 2; ++i) step();
    if (context.rank() == 1) weight.mutable_data_ptr<float>()[0] = 7;
    const at::Tensor before = weight.detach().clone();
    EXPECT_THAT(error_of<MismatchError>(step), HasSubstr("'weight' of rank 1"));
    EXPECT_TRUE(weight.equal(before));
  });
}

TEST(CompareWeightsEvery, DifferentOrNegativePeriodIsRefused) {
  on_ranks(2, [](Context& context) {
    const auto told =
        error_of<MismatchError>([&] { Training training(context, {.compare_weights_every = 10 + context.rank()}); });
    EXPECT_THAT(told, AllOf(HasSubstr("compare_weights_every=10"), HasSubstr("compare_weights_every=11")));
    EXPECT_THAT(error_of<UsageError>([&] { Training training(context, {.compare_weights_every = -1}); }),
                HasSubstr("compare_weights_every is -1"));
  });
}

// forward() scales the rows that it looks up, and each rank looks up others.
TEST(CompareWeightsEvery, EmbeddingWithMaxNormIsNamedAsCauseInFirstAndLaterComparison) {
  for (const bool later : {false, true}) {
    on_ranks(2, [&](Context& context) {
      torch::nn::Embedding rows(torch::nn::EmbeddingOptions(20, 4).max_norm(1.0));
      broadcast_parameters(context, *rows);
      torch::optim::SGD sgd(rows->parameters(), 0.1);
      DistributedOptimizer optimizer(context, sgd, rows->named_parameters(), {.compare_weights_every = kEvery});
      const auto step = [&](bool alike) {
        optimizer.zero_grad();
        rows->forward(torch::arange(5) + (alike ? 0 : 5 * context.rank())).pow(2).sum().backward();
        optimizer.step();
      };
      for (int i = 0; later && i < kEvery; ++i) step(i == 0);
      EXPECT_THAT(error_of<MismatchError>([&] { step(false); }),
                  AllOf(HasSubstr("parameter 'weight' of rank 1"), HasSubstr("forward() changes weights in place"),
                        HasSubstr("Embedding or EmbeddingBag with max_norm")));
    });
  }
}

struct Lines {
  std::mutex mutex;
  std::vector<std::string> warnings;
  LogSink sink() {
    return [this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex);
      if (level >= LogLevel::warn) warnings.emplace_back(line);
    };
  }
};

// Ranks are threads. LibTorch counts for each of them, but a new one begins with the number that was set last anywhere.
void set_threads_here(int count) {
  static_cast<void>(at::get_num_threads());
  at::set_num_threads(count);
}

std::vector<std::string> warnings_of(int ranks, const std::function<int(int rank)>& threads) {
  Lines lines;
  Config config;
  config.log_sink = lines.sink();
  auto contexts = Context::create_local(ranks, config);
  run_ranks(ranks, [&](int rank) {
    set_threads_here(threads(rank));
    Training training(*contexts[static_cast<std::size_t>(rank)]);
    training.step();
  });
  return lines.warnings;
}

TEST(ExecutionEnvironment, DifferentThreadCountsLogOneWarning) {
  EXPECT_THAT(warnings_of(3, [](int rank) { return rank == 1 ? 2 : 1; }),
              ElementsAre(AllOf(HasSubstr("rank 0"), HasSubstr("threads=1 on ranks 0, 2, threads=2 on rank 1. "),
                                HasSubstr("OMP_NUM_THREADS"))));
}

TEST(ExecutionEnvironment, EqualThreadCountsLogNoWarning) {
  EXPECT_THAT(warnings_of(3, [](int) { return 2; }), IsEmpty());
  EXPECT_THAT(warnings_of(1, [](int) { return 2; }), IsEmpty());
}

// The thread count may change the results of forward and backward, but not those of the update.
TEST(FusedSGD, WeightsStayEqualOnRanksWithDifferentThreadCounts) {
  on_ranks(2, [](Context& context) {
    set_threads_here(context.rank() == 0 ? 1 : 3);
    torch::manual_seed(1);
    const at::Tensor weight = torch::randn({300, 1000}).requires_grad_(true);
    broadcast_parameters(context, NamedTensors{{"weight", weight}});
    auto sgd = std::make_shared<kolo::FusedSGD>(std::vector<at::Tensor>{weight},
                                                torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4));
    DistributedOptimizer optimizer(context, sgd, NamedTensors{{"weight", weight}}, {.compare_weights_every = 1});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      (weight.pow(2) * torch::rand_like(weight)).sum().backward();
      optimizer.step();
    }
  });
}

}  // namespace
}  // namespace kolo::test

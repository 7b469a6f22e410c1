// Config::sync, overlap and algorithm, which are for measurements.
#include <gmock/gmock.h>

#include <array>
#include <optional>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "training/equivalence.h"
#include "training/one_weight.h"
#include "training/recorded_run.h"

namespace kolo::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::vector<int>> kLayouts{{0, 0}, {0, 1}, {0, 0, 1, 1}};

Config without_sync() {
  Config config;
  config.sync = false;
  return config;
}

// As train_together(), but compares weights in each step.
DistributedOptions comparing() {
  DistributedOptions options = packed();
  options.compare_weights_every = 1;
  return options;
}

// One process with the batches of `rank`, and with nothing of kolo's.
History train_with_batches_of(int rank) {
  auto model = make_model(torch::kFloat32);
  auto optimizer = make_optimizer(Rule::sgd, model->parameters());
  History history;
  for (int step = 0; step < kSteps; ++step) {
    auto [input, target] = batch_of(step, rank, torch::kFloat32);
    optimizer->zero_grad();
    loss_of(model, input, target).backward();
    optimizer->step();
    history.push_back(copies(model));
  }
  return history;
}

TEST(SyncOff, EachRankTrainsAModelOfItsOwn) {
  for (const auto& hosts : kLayouts) {
    RecordedRun run(hosts, without_sync());
    std::vector<History> histories(hosts.size());
    run.on_ranks([&](Context& context) {
      histories[static_cast<std::size_t>(context.rank())] =
          train_together(context, Rule::sgd, torch::kFloat32, comparing());
    });
    run.end();
    at::set_num_threads(1);
    for (int rank = 0; rank < run.size(); ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      const auto r = static_cast<std::size_t>(rank);
      expect_bitwise_equal(histories[r], train_with_batches_of(rank), "as alone");
      expect_sound(run.steps(rank), kSteps);
      for (const json& step : run.steps(rank)) {
        EXPECT_EQ(step.at("reduced_bytes"), 0);
        EXPECT_EQ(nanoseconds(step, "communication_us"), 0);
        EXPECT_GT(nanoseconds(step, "backward_us"), 0);
      }
      EXPECT_EQ(run.head(rank).at("size"), run.size());
      EXPECT_EQ(run.head(rank).at("facts").at("KOLO_SYNC"), "off");
    }
    EXPECT_FALSE(bitwise_equal(histories[0].back()[0], histories[1].back()[0]));
  }
}

TEST(SyncOff, LogsOneWarning) {
  RecordedRun run({0, 0, 1}, without_sync(), false);
  EXPECT_THAT(run.warnings(), ElementsAre(AllOf(HasSubstr("rank 0"), HasSubstr("sync=off"))));
  RecordedRun alone({0}, without_sync(), false);
  EXPECT_THAT(alone.warnings(), IsEmpty()) << "with one rank nothing is left out";
}

TEST(SyncOff, StepsReduceNothingAndOtherCollectivesReduce) {
  for (const auto& hosts : kLayouts) {
    RecordedRun run(hosts, without_sync(), false);
    run.on_ranks([&](Context& context) {
      at::set_num_threads(1);
      auto model = make_model(torch::kFloat32);
      broadcast_parameters(context, *model);
      DistributedOptimizer optimizer(context, make_optimizer(Rule::sgd, model->parameters()), model->named_parameters(),
                                     comparing());
      context.barrier();
      const CounterSnapshot before = context.counters();
      for (int step = 0; step < 5; ++step) {
        auto [input, target] = batch_of(step, context.rank(), torch::kFloat32);
        optimizer.zero_grad();
        loss_of(model, input, target).backward();
        optimizer.step();
      }
      const CounterSnapshot after = context.counters();
      for (const auto* name : {"launches", "control_messages", "bytes_reduced_shared"}) {
        EXPECT_EQ(after.at(name), before.at(name)) << name;
      }
      const int ranks = context.size();
      const auto sum = allreduce_metrics(context, {1.0 + context.rank()}, ReduceOp::sum, "after training");
      EXPECT_EQ(sum.at(0), ranks * (ranks + 1) / 2);
      float value = 1;
      Request request;
      request.name = "value";
      request.sizes = {1};
      request.input = request.output = &value;
      context.submit(request).wait();
      EXPECT_EQ(value, static_cast<float>(ranks));
      context.barrier();
    });
  }
}

TEST(SyncOff, TrainingGoesOnAfterAFailureOfARank) {
  RecordedRun run({0, 0}, without_sync(), false);
  run.on_ranks([](Context& context) {
    Training training(context);
    training.step();
    if (context.rank() == 1) {
      EXPECT_THROW(context.run([&] {
        training.backward();
        throw std::runtime_error("bad batch");
      }),
                   std::runtime_error);
    }
    training.step();
    training.step();
  });
}

// `early` is the gradient of a bucket that is full long before step().
struct EarlyAndLate {
  explicit EarlyAndLate(Context& where) : context(where) {
    at::set_num_threads(1);
    DistributedOptions options;
    options.bucket_bytes = 1;
    optimizer.emplace(context, std::make_shared<torch::optim::SGD>(std::vector{early, late}, 0.5),
                      NamedTensors{{"early", early}, {"late", late}}, options);
  }
  void backward(const at::Tensor& weight) const { (weight * (context.rank() + 1)).sum().backward(); }
  [[nodiscard]] std::uint64_t launches() const { return context.counters().at("launches"); }

  Context& context;
  at::Tensor early = torch::zeros({100}).requires_grad_(true);
  at::Tensor late = torch::zeros({100}).requires_grad_(true);
  std::optional<DistributedOptimizer> optimizer;
};

TEST(OverlapOff, NoReductionBeginsBeforeStep) {
  for (const bool overlap : {true, false}) {
    Config config;
    config.overlap = overlap;
    RecordedRun run({0, 0}, config);
    run.on_ranks([&](Context& context) {
      EarlyAndLate training(context);
      for (int step = 0; step < 4; ++step) {
        training.optimizer->zero_grad();
        const std::uint64_t before = training.launches();
        training.backward(training.early);
        if (overlap && step > 0) {
          while (training.launches() == before) context.engine().progress();
        }
        training.backward(training.late);
        for (int i = 0; i < 1000; ++i) context.engine().progress();
        EXPECT_EQ(training.launches() - before, overlap && step > 0 ? 1U : 0U) << "step " << step;
        training.optimizer->step();
        EXPECT_GE(training.launches() - before, 2U);
        EXPECT_EQ(training.early.grad()[0].item<double>(), 1.5);
      }
    });
    run.end();
    for (int rank = 0; rank < 2; ++rank) {
      for (const json& step : run.steps(rank)) {
        if (overlap) continue;
        EXPECT_LE(nanoseconds(step, "communication_us"),
                  nanoseconds(step, "step_us") - nanoseconds(step, "synchronize_us"));
      }
    }
  }
}

std::vector<History> train(const std::vector<int>& hosts, const Config& config, const DistributedOptions& options) {
  RecordedRun run(hosts, config, false);
  std::vector<History> histories(hosts.size());
  run.on_ranks([&](Context& context) {
    histories[static_cast<std::size_t>(context.rank())] =
        train_together(context, Rule::fused_sgd, torch::kFloat32, options);
  });
  return histories;
}

TEST(OverlapOff, WeightsAreEqualToThoseOfOverlappedReduction) {
  DistributedOptions early = packed();
  early.overlap_update = true;
  Config off;
  off.overlap = false;
  for (const auto& hosts : kLayouts) {
    for (const auto& options : {packed(), shared(), early}) {
      if (options.shared_gradients && hosts.size() > 2) continue;  // several hosts of several ranks cannot share
      const auto expected = train(hosts, {}, options);
      const auto found = train(hosts, off, options);
      for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
        expect_bitwise_equal(found[rank], expected[rank], "without overlap");
      }
    }
  }
}

constexpr std::array kAlgorithms{Algorithm::direct,
                                 Algorithm::ring,
                                 Algorithm::tree,
                                 Algorithm::halving_doubling,
                                 Algorithm::recursive_doubling,
                                 Algorithm::hierarchical};

// Whether ranks of these hosts can run it: see docs/algorithms.md.
bool is_possible(Algorithm algorithm, const std::vector<int>& hosts) {
  const int number_of_hosts = hosts.back() + 1;
  if (algorithm == Algorithm::direct) return number_of_hosts == 1;
  if (algorithm == Algorithm::hierarchical) {
    return number_of_hosts > 1 && static_cast<std::size_t>(number_of_hosts) < hosts.size();
  }
  return true;
}

TEST(AlgorithmSetting, ChosenAlgorithmReducesGradientsOrIsUsageErrorOnAllRanks) {
  at::set_num_threads(1);
  for (const auto& hosts : std::vector<std::vector<int>>{{0, 0}, {0, 0, 0}, {0, 1}, {0, 0, 1, 1}}) {
    const auto expected = train_alone(Rule::sgd, torch::kFloat32, static_cast<int>(hosts.size()));
    for (const Algorithm algorithm : kAlgorithms) {
      SCOPED_TRACE(std::string(name_of(algorithm)) + ", " + std::to_string(hosts.size()) + " ranks, last host " +
                   std::to_string(hosts.back()));
      Config config;
      config.algorithm = algorithm;
      RecordedRun run(hosts, config);
      if (!is_possible(algorithm, hosts)) {
        run.on_ranks([&](Context& context) {
          EXPECT_THAT(error_of<UsageError>([&] { const Training training(context); }),
                      AllOf(HasSubstr("KOLO_ALGORITHM=" + std::string(name_of(algorithm))), HasSubstr("needs")));
        });
        continue;
      }
      run.on_ranks([&](Context& context) {
        expect_close(train_together(context, Rule::sgd, torch::kFloat32, packed()), expected, 1e-5);
      });
      run.end();
      for (int rank = 0; rank < run.size(); ++rank) {
        const auto spans = run.spans(rank, "reduction");
        EXPECT_FALSE(spans.empty());
        for (const json& span : spans) EXPECT_EQ(span.at("args").at("algorithm"), name_of(algorithm)) << span;
      }
    }
  }
}

// Without the setting they are reduced in shared memory.
TEST(AlgorithmSetting, SharedGradientsAreReducedByTheChosenAlgorithm) {
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ring}) {
    Config config;
    config.algorithm = algorithm;
    RecordedRun run({0, 0}, config);
    run.on_ranks([&](Context& context) {
      at::set_num_threads(1);
      const at::Tensor weight = torch::zeros({10'000}).requires_grad_(true);
      DistributedOptimizer optimizer(context, std::make_shared<torch::optim::SGD>(std::vector{weight}, 0.5),
                                     NamedTensors{{"weight", weight}}, shared());
      const auto step = [&] {
        optimizer.zero_grad();
        (weight * (context.rank() + 1)).sum().backward();
        optimizer.step();
        EXPECT_TRUE(weight.grad().eq(1.5).all().item<bool>());
      };
      for (int i = 0; i < 3; ++i) step();
      context.barrier();
      const CounterSnapshot before = context.counters();
      step();
      const CounterSnapshot after = context.counters();
      const bool in_shared_memory = after.at("bytes_reduced_shared") > before.at("bytes_reduced_shared");
      EXPECT_EQ(in_shared_memory, algorithm == Algorithm::automatic);
    });
    run.end();
    for (const json& span : run.spans(0, "reduction")) {
      EXPECT_EQ(span.at("args").at("algorithm"), algorithm == Algorithm::ring ? "ring" : "direct");
    }
  }
}

// So that one setting can be used for runs of 1, 2 and 4 ranks, and without the reduction.
TEST(AlgorithmSetting, HasNoEffectOnARankThatReducesNothing) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (const auto& hosts : std::vector<std::vector<int>>{{0}, {0, 0}}) {
      Config config;
      config.algorithm = algorithm;
      config.sync = hosts.size() == 1;
      RecordedRun run(hosts, config, false);
      run.on_ranks([](Context& context) {
        Training training(context);
        training.step();
        training.step();
      });
    }
  }
}

TEST(AlgorithmSetting, MpiIsUsageError) {
  Config config;
  config.algorithm = Algorithm::mpi;
  EXPECT_THAT(error_of<UsageError>([&] { Context::create_local(2, config); }), HasSubstr("KOLO_ALGORITHM"));
}

}  // namespace
}  // namespace kolo::test

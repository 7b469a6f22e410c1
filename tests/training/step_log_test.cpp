// The step log and the timeline of training: what is in them, and that without them nothing is recorded.
#include <gmock/gmock.h>
#include <torch/optim/lbfgs.h>

#include <optional>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "training/equivalence.h"
#include "training/recorded_run.h"

namespace kolo::test {
namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::SizeIs;

// Of all gradients of make_model(), each padded to a multiple of 64 bytes in its bucket.
std::uint64_t padded_gradient_bytes() {
  std::uint64_t bytes = 0;
  for (const auto& parameter : make_model(torch::kFloat32)->parameters()) bytes += (parameter.nbytes() + 63) / 64 * 64;
  return bytes;
}

struct Case {
  std::string name;
  std::vector<int> hosts;
  Rule rule = Rule::sgd;
  DistributedOptions options = packed();
};

DistributedOptions overlapped() {
  DistributedOptions options = packed();
  options.overlap_update = true;
  return options;
}

class StepLogOf : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, StepLogOf,
                         testing::Values(Case{"one_host", {0, 0}}, Case{"two_hosts", {0, 1}},
                                         Case{"hosts_of_two", {0, 0, 1, 1}},
                                         Case{"shared_gradients", {0, 0}, Rule::sgd, shared()},
                                         Case{"shared_gradients_on_two_hosts", {0, 1}, Rule::sgd, shared()},
                                         Case{"overlap_update", {0, 0}, Rule::fused_sgd, overlapped()},
                                         Case{"overlap_update_on_two_hosts", {0, 1}, Rule::fused_sgd, overlapped()}),
                         [](const auto& of) { return of.param.name; });

TEST_P(StepLogOf, TrainingHasOneSoundLineForEachStepOfEachRank) {
  RecordedRun run(GetParam().hosts);
  run.on_ranks([&](Context& context) {
    train_together(context, GetParam().rule, torch::kFloat32, GetParam().options);
    EXPECT_EQ(context.counters().at("steps_recorded"), static_cast<std::uint64_t>(kSteps));
  });
  run.end();
  for (int rank = 0; rank < run.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const json head = run.head(rank);
    EXPECT_EQ(head.at("rank"), rank);
    EXPECT_EQ(head.at("size"), run.size());
    EXPECT_TRUE(head.at("facts").contains("libtorch"));
    EXPECT_TRUE(head.at("facts").contains("KOLO_STEP_LOG"));
    EXPECT_EQ(head.at("facts").at("device"), "cpu");
    const auto steps = run.steps(rank);
    expect_sound(steps, kSteps);
    for (const json& step : steps) {
      SCOPED_TRACE(step.dump());
      EXPECT_GT(nanoseconds(step, "before_first_gradient_us"), 0);
      EXPECT_GT(nanoseconds(step, "backward_us"), 0);
      EXPECT_GT(nanoseconds(step, "optimizer_us"), 0);
      EXPECT_GT(nanoseconds(step, "communication_us"), 0);
      EXPECT_GE(nanoseconds(step, "synchronize_us"),
                nanoseconds(step, "before_first_gradient_us") + nanoseconds(step, "backward_us"));
      EXPECT_GT(step.at("reductions").get<int>(), 1);
      EXPECT_EQ(step.at("reduced_bytes"), padded_gradient_bytes());
    }
  }
  EXPECT_THAT(run.warnings(), IsEmpty());
}

TEST_P(StepLogOf, TimelineHasEveryReductionAndPhase) {
  RecordedRun run(GetParam().hosts);
  run.on_ranks(
      [&](Context& context) { train_together(context, GetParam().rule, torch::kFloat32, GetParam().options); });
  run.end();
  for (int rank = 0; rank < run.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    std::uint64_t reductions = 0;
    for (const json& step : run.steps(rank)) reductions += step.at("reductions").get<std::uint64_t>();
    std::uint64_t bytes = 0;
    const auto spans = run.spans(rank, "reduction");
    EXPECT_THAT(spans, SizeIs(reductions));
    for (const json& span : spans) {
      SCOPED_TRACE(span.dump());
      bytes += span.at("args").at("bytes").get<std::uint64_t>();
      EXPECT_NE(span.at("args").at("algorithm"), "auto");
      EXPECT_GE(span.at("dur").get<double>(), 0);
    }
    EXPECT_EQ(bytes, kSteps * padded_gradient_bytes());
    EXPECT_THAT(run.spans(rank, "negotiation"), SizeIs(1));
    EXPECT_THAT(run.spans(rank, "pack"), testing::Not(IsEmpty()));
    for (const auto* phase : {"before first gradient", "backward", "optimizer", "other"}) {
      EXPECT_GE(run.spans(rank, phase).size(), static_cast<std::size_t>(kSteps)) << phase;
    }
    const CounterSnapshot counters = run.context(rank).counters();
    EXPECT_EQ(counters.at("timeline_events"), run.spans(rank).size());
    EXPECT_EQ(counters.at("timeline_dropped"), 0U);
  }
}

TEST(StepLog, OneRankHasLinesWithoutReductions) {
  RecordedRun run({0});
  run.on_ranks([](Context& context) { train_together(context, Rule::sgd, torch::kFloat32); });
  run.end();
  const auto steps = run.steps(0);
  expect_sound(steps, kSteps);
  for (const json& step : steps) {
    EXPECT_GT(nanoseconds(step, "backward_us"), 0);
    EXPECT_EQ(nanoseconds(step, "exposed_us"), 0);
    EXPECT_EQ(nanoseconds(step, "communication_us"), 0);
    EXPECT_EQ(step.at("reductions"), 0);
  }
}

// A rank's model, optimizer and passes.
struct Trained {
  explicit Trained(Context& where, DistributedOptions options = packed())
      : context(where),
        optimizer(context, make_optimizer(Rule::sgd, model->parameters()), model->named_parameters(), options) {
    at::set_num_threads(1);
  }
  void pass(int step) {
    auto [input, target] = batch_of(step, context.rank(), torch::kFloat32);
    loss_of(model, input, target).backward();
  }
  void step(int number = 0) {
    optimizer.zero_grad();
    pass(number);
    optimizer.step();
  }
  Context& context;
  torch::nn::Sequential model = make_model(torch::kFloat32);
  DistributedOptimizer optimizer;
};

// In order of time: of the track of phases.
std::vector<std::string> phases_of(const RecordedRun& run, int rank) {
  std::vector<std::string> phases;
  for (const json& span : run.spans(rank)) {
    if (span.at("tid") == 1) phases.push_back(span.at("name"));
  }
  return phases;
}

TEST(StepLog, SeveralPassesOfAStepAreOneLineWithForwardBetweenThem) {
  constexpr int kPasses = 3;
  for (const bool no_sync : {false, true}) {
    RecordedRun run({0, 0});
    run.on_ranks([&](Context& context) {
      DistributedOptions options = packed();
      options.passes_per_step = no_sync ? 1 : kPasses;
      Trained training(context, options);
      for (int step = 0; step < 4; ++step) {
        training.optimizer.zero_grad();
        for (int pass = 0; pass < kPasses; ++pass) {
          std::optional<DistributedOptimizer::NoSync> guard;
          if (no_sync && pass + 1 < kPasses) guard.emplace(training.optimizer);
          training.pass(step);
        }
        training.optimizer.step();
      }
    });
    run.end();
    for (int rank = 0; rank < 2; ++rank) {
      expect_sound(run.steps(rank), 4);
      EXPECT_THAT(run.spans(rank, "backward"), SizeIs(4 * kPasses)) << "no_sync " << no_sync;
      const auto phases = phases_of(run, rank);
      for (std::size_t i = 0; i < phases.size(); ++i) {
        if (phases[i] != "backward") continue;
        EXPECT_EQ(phases.at(i - 1), "before first gradient") << "span " << i;
      }
    }
  }
}

TEST(StepLog, ClosuresOfAStepAreOneLineWithTheReductionsOfAll) {
  RecordedRun run({0, 0});
  std::vector<int> evaluations;  // by step, of rank 0
  run.on_ranks([&](Context& context) {
    const at::Tensor weight = torch::zeros({100}).requires_grad_(true);
    DistributedOptimizer optimizer(context,
                                   std::make_shared<torch::optim::LBFGS>(std::vector<at::Tensor>{weight},
                                                                         torch::optim::LBFGSOptions(0.1).max_iter(3)),
                                   NamedTensors{{"weight", weight}});
    for (int step = 0; step < 3; ++step) {
      int evaluated = 0;
      optimizer.step([&] {
        optimizer.zero_grad();
        at::Tensor loss = (weight - (context.rank() + 1)).pow(2).sum();
        loss.backward();
        ++evaluated;
        return loss;
      });
      if (context.rank() == 0) evaluations.push_back(evaluated);
    }
    optimizer.skip();
  });
  run.end();
  for (int rank = 0; rank < 2; ++rank) {
    const auto steps = run.steps(rank);
    expect_sound(steps, 4);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_GT(evaluations.at(i), 1);
      EXPECT_EQ(steps[i].at("reductions"), evaluations[i]) << "a bucket for each evaluation";
      EXPECT_GT(nanoseconds(steps[i], "optimizer_us"), 0);
    }
    EXPECT_EQ(nanoseconds(steps[3], "optimizer_us"), 0) << "the update ends with its step";
  }
}

TEST(StepLog, SkippedStepHasALineWithoutUpdate) {
  RecordedRun run({0, 0});
  run.on_ranks([](Context& context) {
    Trained training(context);
    training.step();
    training.optimizer.zero_grad();
    training.pass(1);
    training.optimizer.skip();
    training.step();
  });
  run.end();
  const auto steps = run.steps(1);
  expect_sound(steps, 3);
  EXPECT_EQ(nanoseconds(steps[1], "optimizer_us"), 0);
  EXPECT_EQ(steps[1].at("reduced_bytes"), padded_gradient_bytes());
  EXPECT_GT(nanoseconds(steps[2], "optimizer_us"), 0);
}

// On rank 1 training code throws, and on rank 0 step().
TEST(StepLog, FailedStepHasNoLineAndNoTimeOfTheNext) {
  RecordedRun run({0, 0});
  run.on_ranks([](Context& context) {
    Trained training(context);
    training.step();
    const auto failing = [&] {
      if (context.rank() == 1) throw std::runtime_error("bad batch");
      training.step();
    };
    if (context.rank() == 1) {
      EXPECT_THROW(context.run(failing), std::runtime_error);
    } else {
      EXPECT_THROW(context.run(failing), PeerFailedError);
    }
    training.step();
    training.step();
  });
  run.end();
  for (int rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    auto steps = run.steps(rank);
    ASSERT_THAT(steps, SizeIs(3));
    const auto end = nanoseconds(steps[0], "start_us") + nanoseconds(steps[0], "step_us");
    EXPECT_GT(nanoseconds(steps[1], "start_us"), end) << "the failed step lies between";
    EXPECT_EQ(steps[1].at("step"), 2);
    EXPECT_EQ(steps[1].at("reduced_bytes"), padded_gradient_bytes());
    EXPECT_EQ(nanoseconds(steps[2], "start_us"), nanoseconds(steps[1], "start_us") + nanoseconds(steps[1], "step_us"));
  }
}

// What each rank does in a steady step. Messages between threads are not counted: unit.recording_processes does that.
std::vector<CounterSnapshot> steady_steps(const std::vector<int>& hosts, bool recorded) {
  RecordedRun run(hosts, {}, recorded);
  std::vector<CounterSnapshot> counts(hosts.size());
  run.on_ranks([&](Context& context) {
    Trained training(context);
    for (int step = 0; step < 3; ++step) training.step(step);
    context.barrier();
    const CounterSnapshot before = context.counters();
    for (int step = 0; step < 5; ++step) training.step(step);
    const CounterSnapshot after = context.counters();
    auto& mine = counts[static_cast<std::size_t>(context.rank())];
    for (const auto* name :
         {"control_messages", "bytes_reduced_shared", "launches", "steps_recorded", "timeline_events"}) {
      mine[name] = after.at(name) - before.at(name);
    }
  });
  return counts;
}

TEST(StepLog, SteadyStepReducesTheSameWithAndWithoutIt) {
  for (const auto& hosts : {std::vector{0, 0}, std::vector{0, 1}, std::vector{0, 0, 1, 1}}) {
    const auto off = steady_steps(hosts, false);
    const auto on = steady_steps(hosts, true);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      for (const auto* name : {"control_messages", "bytes_reduced_shared", "launches"}) {
        EXPECT_EQ(on[rank].at(name), off[rank].at(name)) << name << " of rank " << rank;
      }
      EXPECT_EQ(off[rank].at("control_messages"), 0U);
      EXPECT_EQ(on[rank].at("steps_recorded"), 5U);
      EXPECT_GT(on[rank].at("timeline_events"), 0U);
      EXPECT_EQ(off[rank].at("steps_recorded"), 0U);
      EXPECT_EQ(off[rank].at("timeline_events"), 0U);
    }
  }
}

// On rank 0 `early` is in flight when the timeline starts, and waits for rank 1.
TEST(Timeline, ReductionThatBeganBeforeItIsLeftOut) {
  RecordedRun run({0, 0}, {}, false);
  run.on_ranks([&](Context& context) {
    at::set_num_threads(1);
    const at::Tensor early = torch::zeros({100}).requires_grad_(true), late = torch::zeros({100}).requires_grad_(true);
    DistributedOptions options;
    options.bucket_bytes = 1;
    DistributedOptimizer optimizer(context, std::make_shared<torch::optim::SGD>(std::vector{early, late}, 0.5),
                                   NamedTensors{{"early", early}, {"late", late}}, options);
    const auto backward = [](const at::Tensor& weight) { (weight * 2).sum().backward(); };
    backward(early);
    backward(late);
    optimizer.step();
    optimizer.zero_grad();
    if (context.rank() == 0) {
      const std::uint64_t launched = context.counters().at("launches");
      backward(early);
      while (context.counters().at("launches") == launched) context.engine().progress();
    }
    context.start_timeline((run.folder() / "trace").string());
    if (context.rank() == 1) backward(early);
    backward(late);
    optimizer.step();
    context.stop_timeline();
  });
  EXPECT_THAT(run.spans(0, "reduction"), SizeIs(1));
  EXPECT_THAT(run.spans(1, "reduction"), SizeIs(2));
  for (int rank = 0; rank < 2; ++rank) {
    const auto first = run.spans(rank).front().at("ts").get<double>();
    for (const json& span : run.spans(rank)) EXPECT_GT(span.at("ts"), first - 60e6) << span;
  }
}

TEST(Timeline, StartedAndStoppedInCodeHasTheStepsBetween) {
  RecordedRun run({0, 1}, {}, false);
  run.on_ranks([&](Context& context) {
    Trained training(context);
    training.step();
    for (const std::string name : {"first", "second"}) {
      context.start_timeline((run.folder() / name).string());
      for (int step = 0; step < 2; ++step) {
        { const TimelineRange range(context, "data wait"); }
        training.step(step);
      }
      context.stop_timeline();
      training.step();
    }
    EXPECT_EQ(context.counters().at("steps_recorded"), 0U);
  });
  for (int rank = 0; rank < 2; ++rank) {
    for (const std::string name : {"first", "second"}) {
      SCOPED_TRACE(name + " of rank " + std::to_string(rank));
      EXPECT_THAT(run.spans(rank, "data wait", name), SizeIs(2));
      EXPECT_THAT(run.spans(rank, "backward", name), SizeIs(2));
      EXPECT_THAT(run.spans(rank, "optimizer", name), SizeIs(2));
      EXPECT_THAT(run.spans(rank, "negotiation", name), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace kolo::test

// Programs with several optimizers, in which a rank throws between their rounds: the round that ends, and the work
// after it.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

std::vector<GradientInfo> table() { return {{"a", {100}, {1}, DType::f32}, {"b", {50}, {1}, DType::f32}}; }

ReducerOptions sums() { return {.op = ReduceOp::sum, .settings = {}}; }

Config patient() {
  auto config = quick();
  config.stall_warning = std::chrono::seconds(15);
  return config;
}

// Rounds of two reducers: `each` rounds of the second for one round of the first.
class Program {
 public:
  Program(Context& context, int each)
      : each_(each),
        rare_(context.engine().make_reducer(table(), {})),
        often_(context.engine().make_reducer(table(), {})) {}
  [[nodiscard]] GradientReducer& of_step(int step) { return step % (each_ + 1) == each_ ? *rare_ : *often_; }
  void run(int step) {
    for (const std::size_t index : {1, 0}) of_step(step).contribute(index, ones_.data());
    of_step(step).finish();
  }

 private:
  int each_;
  std::unique_ptr<GradientReducer> rare_;
  std::unique_ptr<GradientReducer> often_;
  std::vector<float> ones_ = std::vector<float>(100, 1.0F);
};

void expect_told(const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const PeerFailedError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("bad batch"));
  }
}

class RareReducer : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(FailsBefore, RareReducer, testing::Range(12, 24));  // twice each step of a period

// The rank that throws has no open round. The others are in a round of one reducer or about to start it.
TEST_P(RareReducer, ExceptionBetweenRoundsEndsRoundOfPeers) {
  const int bad_step = GetParam();
  run_world(3, patient(), [&](Context& context) {
    Program program(context, 5);
    for (int step = 0; step < bad_step + 8; ++step) {
      const bool bad = step == bad_step;
      if (!bad) {
        context.run([&] { program.run(step); });
      } else if (context.rank() == 1) {
        EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
      } else {
        expect_told([&] { context.run([&] { program.run(step); }); });
      }
    }
  });
}

// No rank is in a round. The others get the error from an operation, and end the same round as the rank that threw.
TEST_P(RareReducer, ExceptionDuringOperationOfPeersEndsSameRoundOnAllRanks) {
  const int bad_step = GetParam();
  run_world(3, patient(), [&](Context& context) {
    Program program(context, 5);
    const std::vector<float> input(8, 1.0F);
    const auto measure = [&] { context.engine().submit(allreduce("metric", input, nullptr)).wait(); };
    for (int step = 0; step < bad_step + 8; ++step) {
      if (step == bad_step && context.rank() == 1) {
        EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
      } else if (step == bad_step) {
        expect_told([&] { context.run(measure); });
      } else {
        context.run([&] { program.run(step); });
      }
    }
  });
}

// Three reducers that step in order; one backward pass contributes the gradients of all, in reverse order.
class OneBackward {
 public:
  explicit OneBackward(Context& context) {
    for (auto& reducer : reducers_) reducer = context.engine().make_reducer(table(), {});
  }
  // Throws after `bad_after` gradients.
  void backward(int bad_after = -1) {
    int come = 0;
    for (auto reducer = reducers_.rbegin(); reducer != reducers_.rend(); ++reducer) {
      for (const std::size_t index : {1, 0}) {
        if (come++ == bad_after) throw std::runtime_error("bad batch");
        (*reducer)->contribute(index, ones_.data());
      }
    }
  }
  void finish() {
    for (auto& reducer : reducers_) reducer->finish();
  }
  [[nodiscard]] std::array<std::unique_ptr<GradientReducer>, 3>& reducers() { return reducers_; }

 private:
  std::vector<float> ones_ = std::vector<float>(100, 1.0F);
  std::array<std::unique_ptr<GradientReducer>, 3> reducers_;
};

class OpenRounds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(FailsAfter, OpenRounds, testing::Range(0, 6));  // so many gradients

TEST_P(OpenRounds, AllEndIfOneRankThrowsInBackward) {
  for (const bool handled : {true, false}) {  // whether the peers' errors reach Context::run
    run_world(3, patient(), [&](Context& context) {
      OneBackward program(context);
      const auto both = [&] {
        program.backward();
        program.finish();
      };
      for (int step = 0; step < 8; ++step) {
        if (step != 5) {
          both();
        } else if (context.rank() == 1) {
          EXPECT_THROW(context.run([&] { program.backward(GetParam()); }), std::runtime_error);
        } else if (handled) {
          program.backward();
          for (auto& reducer : program.reducers()) expect_told([&] { reducer->finish(); });
        } else {
          expect_told([&] { context.run(both); });
        }
      }
      for (auto& reducer : program.reducers()) EXPECT_EQ(reducer->round(), 8U);
    });
  }
}

// The peers get the error from an operation before their backward pass. They end the same rounds as the rank that
// threw.
TEST(SeveralReducers, ExceptionBeforeBackwardEndsRoundsOfAllReducers) {
  run_world(3, patient(), [&](Context& context) {
    OneBackward program(context);
    const std::vector<float> input(8, 1.0F);
    for (int step = 0; step < 8; ++step) {
      if (step == 5 && context.rank() == 1) {
        EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
      } else if (step == 5) {
        expect_told([&] { context.run([&] { context.engine().submit(allreduce("metric", input, nullptr)).wait(); }); });
      } else {
        program.backward();
        program.finish();
      }
    }
  });
}

// Two optimizers whose gradients depend on step and rank, so that a mix of steps shows.
class TwoOptimizers {
 public:
  explicit TwoOptimizers(Context& context) : context_(context) {
    for (auto& reducer : reducers_) reducer = context.engine().make_reducer(table(), sums());
  }
  void backward(int step) {
    values_.assign(100, value(step, context_.rank()));
    for (auto reducer = reducers_.rbegin(); reducer != reducers_.rend(); ++reducer) {
      for (const std::size_t index : {1, 0}) (*reducer)->contribute(index, values_.data());
    }
  }
  // `idle`: a rank without gradients in this step.
  void finish(int step, std::optional<Rank> idle = {}) {
    float expected = 0;
    for (Rank rank = 0; rank < context_.size(); ++rank) expected += rank == idle ? 0 : value(step, rank);
    for (auto& reducer : reducers_) {
      reducer->finish();
      EXPECT_EQ(*reinterpret_cast<const float*>(reducer->gradient(1).data()), expected) << "step " << step;
    }
  }

 private:
  static float value(int step, Rank rank) { return static_cast<float>(100 * step + rank + 1); }
  Context& context_;
  std::array<std::unique_ptr<GradientReducer>, 2> reducers_;
  std::vector<float> values_;
};

// From the first step on, when no order of rounds is known yet. No rank may start a round that a peer still has to end.
TEST(SeveralReducers, TwoFailuresInARowMixNoSteps) {
  for (int bad_step = 0; bad_step < 4; ++bad_step) {
    for (const bool after_idle : {false, true}) {  // the step before has no gradients of the rank that fails
      SCOPED_TRACE("fails in step " + std::to_string(bad_step) + (after_idle ? " after an idle one" : ""));
      run_world(3, patient(), [&](Context& context) {
        TwoOptimizers program(context);
        for (int step = 0; step < bad_step + 5; ++step) {
          const bool bad = step == bad_step || step == bad_step + 1;
          const bool idle = after_idle && step == bad_step - 1;
          const auto whole = [&] {
            if (!idle || context.rank() != 1) program.backward(step);
            program.finish(step, idle ? std::optional<Rank>(1) : std::nullopt);
          };
          if (!bad) {
            context.run(whole);
          } else if (context.rank() == 1) {
            EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
          } else {
            expect_told([&] { context.run(whole); });
          }
        }
      });
      if (HasFailure()) return;
    }
  }
}

// All ranks fail without an open round. The next rank that fails must name the round that the others start.
TEST(SeveralReducers, WorkAfterFailureOfAllRanks) {
  run_world(3, patient(), [&](Context& context) {
    TwoOptimizers program(context);
    for (int step = 0; step < 8; ++step) {
      const auto whole = [&] {
        program.backward(step);
        program.finish(step);
      };
      if (step == 4 || (step == 5 && context.rank() == 1)) {
        EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
      } else if (step == 5) {
        expect_told([&] { context.run(whole); });
      } else {
        context.run(whole);
      }
    }
  });
}

// Two optimizers that step in turn, each after its own backward pass. After an exception, all ranks continue with the
// first optimizer, also if it has failed before. Failures are (step, rank, before the second optimizer).
struct Failure {
  int step;
  Rank rank;
  bool between;
};
class AlternatingReducers : public testing::TestWithParam<std::vector<Failure>> {};
INSTANTIATE_TEST_SUITE_P(
    Fail, AlternatingReducers,
    testing::Values(std::vector<Failure>{{6, 1, false}, {7, 1, false}, {8, 1, false}},
                    std::vector<Failure>{{6, 1, false}, {7, 2, false}, {8, 0, true}},
                    std::vector<Failure>{{6, 1, false}, {13, 1, true}},  // when as many rounds have gone since
                    std::vector<Failure>{{6, 1, false}, {9, 2, false}, {12, 1, true}, {13, 1, true}}));

TEST_P(AlternatingReducers, ContinueWithFirstReducerAfterFailures) {
  run_world(3, patient(), [](Context& context) {
    std::array<std::unique_ptr<GradientReducer>, 2> reducers;
    for (auto& reducer : reducers) reducer = context.engine().make_reducer(table(), sums());
    const auto whole = [&](int step, const Failure* bad) {
      const std::vector<float> values(100, static_cast<float>(step));
      for (auto& reducer : reducers) {
        const bool here = bad != nullptr && bad->between == (reducer == reducers[1]);
        if (here && bad->rank == context.rank()) throw std::runtime_error("bad batch");
        for (const std::size_t index : {1, 0}) reducer->contribute(index, values.data());
        reducer->finish();
        EXPECT_EQ(*reinterpret_cast<const float*>(reducer->gradient(1).data()), 3 * values[0]) << "step " << step;
      }
    };
    for (int step = 0; step < 18; ++step) {
      const auto bad = std::ranges::find(GetParam(), step, &Failure::step);
      if (bad == GetParam().end()) {
        context.run([&] { whole(step, nullptr); });
      } else if (bad->rank == context.rank()) {
        EXPECT_THROW(context.run([&] { whole(step, &*bad); }), std::runtime_error);
      } else {
        expect_told([&] { context.run([&] { whole(step, &*bad); }); });
      }
    }
  });
}

// Rounds that overlap: a round that one step opens ends in the next. Programs of "open" (small letters) and "finish"
// (capitals) for the reducers a, b and c.
class OverlappingRounds : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, OverlappingRounds, testing::Values("bAaB", "abAcBC", "abBcAC"));

TEST_P(OverlappingRounds, ExceptionEndsOpenRoundsOnly) {
  const std::string program = GetParam();
  const std::size_t length = program.size();
  for (std::size_t bad = 4 * length; bad < 5 * length; ++bad) {
    SCOPED_TRACE(program + ", fails before call " + std::to_string(bad - 4 * length));
    run_world(3, patient(), [&](Context& context) {
      OneBackward all(context);
      const std::vector<float> ones(100, 1.0F);
      std::array<bool, 3> open{};
      const auto call = [&](char what) {
        const auto which = static_cast<std::size_t>(std::tolower(what) - 'a');
        auto& reducer = *all.reducers()[which];
        if (what == std::toupper(what)) {
          open[which] = false;
          reducer.finish();
        } else if (!std::exchange(open[which], true)) {
          for (const std::size_t index : {1, 0}) reducer.contribute(index, ones.data());
        }
      };
      // After the error, which comes from the first call that waits, all ranks skip the rest of the step.
      std::size_t at = 0;
      const auto run = [&](std::size_t end) {
        for (; at < end; ++at) call(program[at % length]);
      };
      run(bad);
      if (context.rank() == 1) {
        EXPECT_THROW(context.run([] { throw std::runtime_error("bad batch"); }), std::runtime_error);
      } else {
        expect_told([&] { context.run([&] { run(bad + length); }); });
      }
      open = {};
      // All ranks start again, and are in the same rounds.
      for (at = 0; at < 3 * length; ++at) call(program[at % length]);
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace kolo::test

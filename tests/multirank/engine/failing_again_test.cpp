// Failures in two consecutive steps, and of several ranks in one step: every rank gets each of them once, and no
// operation mixes values of two steps.
#include <gmock/gmock.h>

#include <array>

#include "multirank/engine/world.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

constexpr std::size_t kSteps = 3;
constexpr Rank kTrials = fewer_sanitized(24, 6);

float value(std::size_t step, Rank rank) { return static_cast<float>(100 * step) + static_cast<float>(rank + 1); }

float sum(std::size_t step, Rank ranks) {
  float all = 0;
  for (Rank rank = 0; rank < ranks; ++rank) all += value(step, rank);
  return all;
}

// A metric and a round in each step, with values that show whether steps were mixed.
class Program {
 public:
  explicit Program(Context& context, bool with_rounds) : context_(context) {
    if (!with_rounds) return;
    reducer_ = context.engine().make_reducer({{"a", {100}, {1}, DType::f32}}, {.op = ReduceOp::sum, .settings = {}});
  }
  void step(std::size_t number) {
    inputs_[number].assign(100, value(number, context_.rank()));
    auto metric = context_.engine().submit(allreduce("metric", inputs_[number], &outputs_[number]));
    if (reducer_ != nullptr) {
      reducer_->contribute(0, inputs_[number].data());
      reducer_->finish();  // who is told here leaves the metric alone
      EXPECT_EQ(*reinterpret_cast<const float*>(reducer_->gradient(0).data()), sum(number, context_.size()));
    }
    metric.wait();
    EXPECT_THAT(outputs_[number], testing::Each(sum(number, context_.size()))) << "step " << number;
  }
  void told_of(std::size_t number) {
    try {
      context_.run([&] { step(number); });
      ADD_FAILURE() << "no error on rank " << context_.rank() << " in step " << number;
    } catch (const PeerFailedError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("bad batch " + std::to_string(number)));
    }
  }
  void fail(std::size_t number) {
    const auto bad = [number] { throw std::runtime_error("bad batch " + std::to_string(number)); };
    EXPECT_THROW(context_.run(bad), std::runtime_error);
  }

 private:
  Context& context_;
  std::unique_ptr<GradientReducer> reducer_;
  // Of each step: an operation that was left alone may still be reading.
  std::array<std::vector<float>, kSteps> inputs_;
  std::array<std::vector<float>, kSteps> outputs_ =
      std::array<std::vector<float>, kSteps>{std::vector<float>(100), std::vector<float>(100), std::vector<float>(100)};
};

struct Setting {
  bool with_rounds;
  CoordinatorMode coordinator;
};

class RepeatedFailure : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Programs, RepeatedFailure,
                         testing::Values(Setting{true, CoordinatorMode::automatic},
                                         Setting{true, CoordinatorMode::always}, Setting{true, CoordinatorMode::never},
                                         Setting{false, CoordinatorMode::automatic},
                                         Setting{false, CoordinatorMode::always}));

TEST_P(RepeatedFailure, OfOtherRankInNextStepReachesAllRanks) {
  for (Rank trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const Hosts hosts = trial % 2 == 0 ? one_host(4) : Hosts{0, 1, 0, 1};
    run_world(hosts, quick(GetParam().coordinator), [&](Context& context) {
      Program program(context, GetParam().with_rounds);
      for (std::size_t step = 0; step < 2; ++step) {
        const Rank bad = step == 0 ? trial % 4 : (trial + 1 + trial / 8) % 4;
        context.rank() == bad ? program.fail(step) : program.told_of(step);
      }
      context.run([&] { program.step(2); });
    });
    if (HasFailure()) return;
  }
}

// Three of five ranks fail at once, as if a file were missing; the other two get one error.
TEST_P(RepeatedFailure, OfSeveralRanksInOneStepIsReportedOnce) {
  for (Rank trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const Hosts hosts = trial % 2 == 0 ? one_host(5) : Hosts{0, 1, 0, 1, 2};
    run_world(hosts, quick(GetParam().coordinator), [&](Context& context) {
      Program program(context, GetParam().with_rounds);
      for (std::size_t step = 0; step < 2; ++step) {
        const bool bad = (context.rank() + trial + static_cast<Rank>(step)) % 5 < 3;
        bad ? program.fail(step) : program.told_of(step);
      }
      context.run([&] { program.step(2); });
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace kolo::test

// Times are arguments, so the expected durations are computed by hand.
#include "telemetry/step_account.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace kolo::telemetry {
namespace {

// before_first_gradient, backward, exposed, optimizer, other
using Phases = std::array<std::int64_t, 5>;

Phases phases_of(const StepTimes& times) {
  return {times.before_first_gradient_ns, times.backward_ns, times.exposed_ns, times.optimizer_ns, times.other_ns};
}

std::int64_t sum_of(const Phases& phases) {
  std::int64_t sum = 0;
  for (const std::int64_t phase : phases) sum += phase;
  return sum;
}

struct Gradients {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

StepAccount started(std::int64_t now = 0) {
  StepAccount account;
  account.start(now);
  return account;
}

TEST(StepAccount, OrdinaryStepIsDividedAtItsMarks) {
  StepAccount account = started(100);
  Gradients gradients;
  account.gradient_computed(gradients.a, 140);  // 40 before
  account.reduction_began(1000, 150);
  account.gradient_computed(gradients.b, 170);  // 30 backward
  account.begin(StepPart::synchronize, 175);    // 5 other
  account.reduction_began(24, 176);
  account.wait_began(178);                        // 3 other
  account.reduction_ended(190);                   // 22 exposed until 200
  account.reduction_ended(200);                   //
  account.wait_ended(201);                        // 1 other
  account.end(StepPart::synchronize, 203);        // 2 other
  account.begin(StepPart::update, 204);           // 1 other
  account.end(StepPart::update, 230);             // 26 optimizer
  const StepTimes times = account.end_step(233);  // 3 other
  EXPECT_EQ(phases_of(times), (Phases{40, 30, 22, 26, 15}));
  EXPECT_EQ(times.start_ns, 100);
  EXPECT_EQ(times.step_ns, 133);
  EXPECT_EQ(times.communication_ns, 50);
  EXPECT_EQ(times.synchronize_ns, 75);
  EXPECT_EQ(times.reductions, 2U);
  EXPECT_EQ(times.reduced_bytes, 1024U);
}

TEST(StepAccount, NextStepBeginsAtEndOfTheLastWithCountsOfZero) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.a, 10);
  account.reduction_began(8, 11);
  account.begin(StepPart::synchronize, 12);
  account.reduction_ended(13);
  account.end(StepPart::synchronize, 14);
  static_cast<void>(account.end_step(20));
  account.gradient_computed(gradients.a, 27);
  account.gradient_computed(gradients.b, 30);
  const StepTimes times = account.end_step(31);
  EXPECT_EQ(phases_of(times), (Phases{7, 3, 0, 0, 1}));
  EXPECT_EQ(times.start_ns, 20);
  EXPECT_EQ(times.step_ns, 11);
  EXPECT_EQ(times.communication_ns, 0);
  EXPECT_EQ(times.synchronize_ns, 0);
  EXPECT_EQ(times.reductions, 0U);
  EXPECT_EQ(times.reduced_bytes, 0U);
}

TEST(StepAccount, ForwardBetweenBackwardPassesIsBeforeFirstGradient) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.a, 10);  // 10 before
  account.gradient_computed(gradients.b, 14);  // 4 backward
  account.gradient_computed(gradients.a, 34);  // 20 before: `a` again begins a pass
  account.gradient_computed(gradients.b, 39);  // 5 backward
  account.gradient_computed(gradients.b, 69);  // 30 before: `b` again, and `a` takes no part
  account.gradient_computed(gradients.a, 75);  // 6 backward
  EXPECT_EQ(phases_of(account.end_step(76)), (Phases{60, 15, 0, 0, 1}));
}

TEST(StepAccount, PassThatBeginsWithAnotherGradientIsCountedFromThere) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.b, 1);
  static_cast<void>(account.end_step(2));
  account.gradient_computed(gradients.a, 5);  // 3 before, and `b` is of an older pass
  account.gradient_computed(gradients.b, 9);  // 4 backward
  EXPECT_EQ(phases_of(account.end_step(9)), (Phases{3, 4, 0, 0, 0}));
}

TEST(StepAccount, UpdateInsideSynchronizeIsOptimizerAndNotExposed) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.a, 5);
  account.reduction_began(1, 5);
  account.reduction_began(1, 5);
  account.begin(StepPart::synchronize, 10);  // 5 other
  account.wait_began(10);
  account.reduction_ended(20);
  account.wait_ended(20);                  // 10 exposed
  account.begin(StepPart::update, 21);     // 1 other
  account.end(StepPart::update, 27);       // 6 optimizer
  account.wait_began(27);                  //
  account.begin(StepPart::update, 29);     // 2 exposed
  account.end(StepPart::update, 32);       // 3 optimizer, though a wait is open
  account.reduction_ended(36);             // 4 exposed
  account.wait_ended(36);                  //
  account.end(StepPart::synchronize, 36);  //
  account.begin(StepPart::update, 36);
  account.end(StepPart::update, 40);  // 4 optimizer
  const StepTimes times = account.end_step(40);
  EXPECT_EQ(phases_of(times), (Phases{5, 0, 16, 13, 6}));
  EXPECT_EQ(times.communication_ns, 31);
}

TEST(StepAccount, WaitWithoutReductionInFlightIsOther) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.a, 1);
  account.begin(StepPart::synchronize, 1);
  account.wait_began(1);
  account.reduction_began(1, 4);  // 3 other: ranks negotiate
  account.reduction_ended(9);     // 5 exposed
  account.wait_ended(11);         // 2 other
  account.end(StepPart::synchronize, 11);
  EXPECT_EQ(phases_of(account.end_step(11)), (Phases{1, 0, 5, 0, 5}));
}

TEST(StepAccount, ReductionInFlightWithoutWaitIsNotExposed) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.a, 1);
  account.reduction_began(1, 1);
  account.begin(StepPart::synchronize, 4);
  account.end(StepPart::synchronize, 9);
  account.wait_began(10);  // outside synchronize, as in a program's own collective
  account.wait_ended(15);
  account.reduction_ended(20);
  const StepTimes times = account.end_step(20);
  EXPECT_EQ(phases_of(times), (Phases{1, 0, 0, 0, 19}));
  EXPECT_EQ(times.communication_ns, 19);
}

// As LBFGS: the closure computes gradients and synchronizes, and the optimizer goes on between two closures.
TEST(StepAccount, ClosuresOfOneStepAddUp) {
  StepAccount account = started();
  Gradients gradients;
  account.begin(StepPart::update, 10);         // 10 before: data
  account.end(StepPart::update, 12);           // 2 optimizer
  account.gradient_computed(gradients.a, 20);  // 8 before: forward
  account.gradient_computed(gradients.b, 25);  // 5 backward
  account.begin(StepPart::synchronize, 26);    // 1 other
  account.reduction_began(4, 26);
  account.wait_began(26);
  account.reduction_ended(30);  // 4 exposed
  account.wait_ended(30);
  account.end(StepPart::synchronize, 30);
  account.begin(StepPart::update, 31);         // 1 other
  account.end(StepPart::update, 37);           // 6 optimizer
  account.gradient_computed(gradients.a, 44);  // 7 before
  account.gradient_computed(gradients.b, 48);  // 4 backward
  account.begin(StepPart::synchronize, 48);
  account.reduction_began(4, 48);
  account.wait_began(50);       // 2 other
  account.reduction_ended(55);  // 5 exposed
  account.wait_ended(55);
  account.end(StepPart::synchronize, 55);
  account.begin(StepPart::update, 55);
  account.end(StepPart::update, 60);  // 5 optimizer
  const StepTimes times = account.end_step(60);
  EXPECT_EQ(phases_of(times), (Phases{25, 9, 9, 13, 4}));
  EXPECT_EQ(times.communication_ns, 11);
  EXPECT_EQ(times.synchronize_ns, 26) << "of the first synchronize";
  EXPECT_EQ(times.reductions, 2U);
}

TEST(StepAccount, StepWithoutHookIsBeforeFirstGradientUntilItsFirstPart) {
  StepAccount account = started();
  account.begin(StepPart::synchronize, 40);
  account.end(StepPart::synchronize, 42);
  account.begin(StepPart::update, 43);
  account.end(StepPart::update, 50);
  EXPECT_EQ(phases_of(account.end_step(55)), (Phases{40, 0, 0, 7, 8}));
  EXPECT_EQ(phases_of(account.end_step(65)), (Phases{10, 0, 0, 0, 0})) << "a step without any mark";
}

TEST(StepAccount, EndWithoutBeginHasNoEffect) {
  StepAccount account = started();
  account.end(StepPart::update, 10);
  account.end(StepPart::synchronize, 20);
  account.wait_ended(25);
  account.reduction_ended(30);
  account.begin(StepPart::synchronize, 40);
  account.reduction_began(1, 40);
  account.wait_began(40);
  account.wait_ended(43);
  account.reduction_ended(45);
  account.end(StepPart::synchronize, 45);
  const StepTimes times = account.end_step(46);
  EXPECT_EQ(phases_of(times), (Phases{40, 0, 3, 0, 3}));
  EXPECT_EQ(times.communication_ns, 5);
}

TEST(StepAccount, AbandonedStepIsNoPartOfTheNext) {
  StepAccount account = started();
  Gradients gradients;
  account.gradient_computed(gradients.a, 10);
  account.reduction_began(100, 12);
  account.begin(StepPart::synchronize, 20);
  account.abandon_step(50);
  account.end(StepPart::synchronize, 51);  // by the destructor of RecordedPart
  account.reduction_ended(60);             // was in flight all the while
  account.gradient_computed(gradients.a, 65);
  account.begin(StepPart::update, 66);
  account.end(StepPart::update, 70);
  const StepTimes times = account.end_step(70);
  EXPECT_EQ(phases_of(times), (Phases{15, 0, 0, 4, 1}));
  EXPECT_EQ(times.start_ns, 50);
  EXPECT_EQ(times.communication_ns, 10);
  EXPECT_EQ(times.synchronize_ns, 0);
  EXPECT_EQ(times.reductions, 0U);
  EXPECT_EQ(times.reduced_bytes, 0U);
}

TEST(StepAccount, ReductionInFlightAtEndOfStepCountsForBothSteps) {
  StepAccount account = started();
  account.reduction_began(64, 30);
  const StepTimes first = account.end_step(40);
  account.reduction_ended(55);
  const StepTimes second = account.end_step(60);
  EXPECT_EQ(first.communication_ns, 10);
  EXPECT_EQ(second.communication_ns, 15);
  EXPECT_EQ(first.reductions, 1U);
  EXPECT_EQ(second.reductions, 0U) << "of the step in which it began";
  EXPECT_EQ(first.reduced_bytes, 64U);
  EXPECT_EQ(second.reduced_bytes, 0U);
}

// Marks at random, in any order. The phases that marks decide at once are integrated here in a second way.
class RandomMarks {
 public:
  explicit RandomMarks(std::uint32_t seed) : random_(seed) {
    account_.set_on_phase([this](Phase phase, std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(begin, covered_) << "stretches follow each other without a gap";
      EXPECT_LT(begin, end);
      covered_ = end;
      told_[static_cast<std::size_t>(phase)] += end - begin;
    });
    account_.start(now_);
  }

  void make_step() {
    const std::int64_t start = now_;
    told_ = {};
    communication_ = exposed_ = optimizer_ = 0;
    for (int marks = pick(30); marks > 0; --marks) make_mark();
    pass_time();
    const StepTimes times = account_.end_step(now_);
    EXPECT_EQ(times.start_ns, start);
    EXPECT_EQ(times.step_ns, now_ - start);
    EXPECT_EQ(times.step_ns, sum_of(phases_of(times)));
    EXPECT_EQ(phases_of(times), told_);
    EXPECT_EQ(times.communication_ns, communication_);
    EXPECT_EQ(times.exposed_ns, exposed_);
    EXPECT_EQ(times.optimizer_ns, optimizer_);
    EXPECT_GE(times.exposed_ns, 0);
    EXPECT_LE(times.exposed_ns, times.communication_ns);
  }

 private:
  int pick(int below) { return std::uniform_int_distribution(0, below - 1)(random_); }
  static void lower(int& depth) { depth -= depth > 0 ? 1 : 0; }

  void pass_time() {
    const std::int64_t time = pick(4);  // often 0
    now_ += time;
    if (in_flight_ > 0) communication_ += time;
    if (updating_ > 0) {
      optimizer_ += time;
    } else if (synchronizing_ > 0 && waiting_ > 0 && in_flight_ > 0) {
      exposed_ += time;
    }
  }

  void make_mark() {
    pass_time();
    switch (pick(9)) {
      case 0:
        account_.begin(StepPart::synchronize, now_);
        ++synchronizing_;
        break;
      case 1:
        account_.end(StepPart::synchronize, now_);
        lower(synchronizing_);
        break;
      case 2:
        account_.begin(StepPart::update, now_);
        ++updating_;
        break;
      case 3:
        account_.end(StepPart::update, now_);
        lower(updating_);
        break;
      case 4:
        account_.wait_began(now_);
        ++waiting_;
        break;
      case 5:
        account_.wait_ended(now_);
        lower(waiting_);
        break;
      case 6:
        account_.reduction_began(1, now_);
        ++in_flight_;
        break;
      case 7:
        account_.reduction_ended(now_);
        lower(in_flight_);
        break;
      default:
        account_.gradient_computed(passes_[static_cast<std::size_t>(pick(3))], now_);
    }
  }

  std::mt19937 random_;
  StepAccount account_;
  std::int64_t now_ = 1000;
  std::int64_t covered_ = 1000;
  Phases told_{};
  std::array<std::uint64_t, 3> passes_{};
  int synchronizing_ = 0;
  int updating_ = 0;
  int waiting_ = 0;
  int in_flight_ = 0;
  std::int64_t communication_ = 0;
  std::int64_t exposed_ = 0;
  std::int64_t optimizer_ = 0;
};

TEST(StepAccount, PhasesOfRandomMarksAddUpToTheStep) {
  for (std::uint32_t seed = 1; seed <= 100 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomMarks marks(seed);
    for (int step = 0; step < 50 && !testing::Test::HasFailure(); ++step) marks.make_step();
  }
}

}  // namespace
}  // namespace kolo::telemetry

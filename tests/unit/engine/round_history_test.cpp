#include "engine/round_history.h"

#include <gtest/gtest.h>

namespace kolo::engine {
namespace {

const auto kAny = [](std::size_t) { return true; };

void run(RoundHistory& history, std::initializer_list<std::size_t> ids) {
  for (const std::size_t id : ids) {
    history.opened(id);
    history.ended(id);
  }
}

TEST(RoundHistory, KnowsNothingOfWhatHasNotHappenedYet) {
  RoundHistory history;
  EXPECT_EQ(history.next(kAny), std::nullopt);
  run(history, {1});
  EXPECT_EQ(history.next(kAny), std::nullopt);
  run(history, {0});
  EXPECT_EQ(history.next(kAny), std::nullopt) << "0 has never been followed by anything";
}

TEST(RoundHistory, KnowsEveryStepOfAPeriodFromTheSecondOneOn) {
  for (const std::vector<std::size_t>& period :
       std::vector<std::vector<std::size_t>>{{0}, {1, 0}, {0, 0, 0, 0, 0, 1}, {1, 2, 1, 1, 2, 0}}) {
    RoundHistory history;
    for (std::size_t step = 0; step < 5 * period.size(); ++step) {
      const std::size_t id = period[step % period.size()];
      if (step > period.size()) {
        EXPECT_EQ(history.next(kAny), id) << "step " << step;
      }
      run(history, {id});
    }
  }
}

TEST(RoundHistory, ForgetsThatARoundWasOpenWithItsReducer) {
  RoundHistory history;
  run(history, {0, 1, 0, 1, 0});
  history.opened(2);
  EXPECT_NE(history.next(kAny), 1U) << "2 is open, and was not beside 1 before";
  history.gone(2);
  EXPECT_EQ(history.next(kAny), 1U);
}

// Longer than what is kept.
TEST(RoundHistory, ForgetsTheOldest) {
  RoundHistory history;
  for (int i = 0; i < 3000; ++i) run(history, {0, 0, 1});
  EXPECT_EQ(history.next(kAny), 0U);
  run(history, {0, 0});
  EXPECT_EQ(history.next(kAny), 1U);
}

TEST(RoundHistory, NamesOnlyThoseThatMay) {
  RoundHistory history;
  run(history, {0, 1, 0, 1, 0});
  EXPECT_EQ(history.next([](std::size_t id) { return id != 1; }), std::nullopt);
}

// What is open goes before a guess, unless several are open together and end in another order.
TEST(RoundHistory, WhatIsOpenIsNextUnlessAnotherOneCameFirstLikeThatBefore) {
  RoundHistory apart;
  run(apart, {0, 1, 0, 1, 0});
  apart.opened(0);  // 1 would be next
  EXPECT_NE(apart.next(kAny), 1U);

  RoundHistory together;
  for (int step = 0; step < 3; ++step) {
    together.opened(0);
    together.opened(1);
    together.ended(1);
    together.ended(0);
  }
  together.opened(0);
  EXPECT_EQ(together.next(kAny), 1U);
}

}  // namespace
}  // namespace kolo::engine

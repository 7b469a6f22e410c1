#include "engine/round_history.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace kolo::engine {
namespace {

const auto kAny = [](std::size_t) { return true; };

std::optional<std::size_t> next(const RoundHistory& history, const std::function<bool(std::size_t)>& may = kAny) {
  const auto* end = history.next(may);
  return end == nullptr ? std::nullopt : std::optional(end->id);
}

void run(RoundHistory& history, std::initializer_list<std::size_t> ids) {
  for (const std::size_t id : ids) {
    history.opened(id);
    history.ended(id);
  }
}

TEST(RoundHistory, KnowsNothingOfWhatHasNotHappenedYet) {
  RoundHistory history;
  EXPECT_EQ(next(history), std::nullopt);
  run(history, {1});
  EXPECT_EQ(next(history), std::nullopt);
  run(history, {0});
  EXPECT_EQ(next(history), std::nullopt) << "0 has never been followed by anything";
}

TEST(RoundHistory, KnowsEveryStepOfAPeriodFromTheSecondOneOn) {
  for (const std::vector<std::size_t>& period :
       std::vector<std::vector<std::size_t>>{{0}, {1, 0}, {0, 0, 0, 0, 0, 1}, {1, 2, 1, 1, 2, 0}}) {
    RoundHistory history;
    for (std::size_t step = 0; step < 5 * period.size(); ++step) {
      const std::size_t id = period[step % period.size()];
      if (step > period.size()) {
        EXPECT_EQ(next(history), id) << "step " << step;
      }
      run(history, {id});
    }
  }
}

TEST(RoundHistory, ForgetsThatARoundWasOpenWithItsReducer) {
  RoundHistory history;
  run(history, {0, 1, 0, 1, 0});
  history.opened(2);
  EXPECT_NE(next(history), 1U) << "2 is open, and was not beside 1 before";
  history.gone(2);
  EXPECT_EQ(next(history), 1U);
}

// Two optimizers that step in turns: an exception takes the program back to the first, whatever would have come else.
TEST(RoundHistory, BeginsAnewAfterARoundThatFailed) {
  RoundHistory history;
  run(history, {0, 1, 0, 1});
  history.ended(0, true);
  EXPECT_EQ(next(history), 0U);
  history.ended(0, true);
  EXPECT_EQ(next(history), 0U) << "again";
  run(history, {0});
  EXPECT_EQ(next(history), 1U) << "one that has not failed is followed as ever";
  history.ended(1, true);
  EXPECT_EQ(next(history), 0U);
  history.opened(1);
  EXPECT_EQ(next(history, [](std::size_t id) { return id == 1; }), std::nullopt) << "what is open is for the caller";
}

TEST(RoundHistory, GoesOnAfterARoundThatFailedAsItDidBefore) {
  RoundHistory history;
  run(history, {0, 1, 2, 0, 1, 2});
  for (int time = 0; time < 2; ++time) {
    history.ended(0, true);  // a program that catches it before it comes to 1
    run(history, {1, 2, 0, 1, 2});
  }
  history.ended(0, true);
  EXPECT_EQ(next(history), 1U);
}

// A program that goes by the number of its step counts those that failed.
TEST(RoundHistory, AnEarlierFailureIsAnEndLikeOthersToWhatComesLater) {
  RoundHistory history;
  run(history, {0, 0, 0, 1, 0, 0, 0, 1, 0});
  history.ended(0, true);
  run(history, {0});
  EXPECT_EQ(next(history), 1U);
}

// Longer than what is kept.
TEST(RoundHistory, ForgetsTheOldest) {
  RoundHistory history;
  for (int i = 0; i < 3000; ++i) run(history, {0, 0, 1});
  EXPECT_EQ(next(history), 0U);
  run(history, {0, 0});
  EXPECT_EQ(next(history), 1U);
}

TEST(RoundHistory, NamesOnlyThoseThatMay) {
  RoundHistory history;
  run(history, {0, 1, 0, 1, 0});
  EXPECT_EQ(next(history, [](std::size_t id) { return id != 1; }), std::nullopt);
}

// What is open goes before a guess, unless several are open together and end in another order.
TEST(RoundHistory, WhatIsOpenIsNextUnlessAnotherOneCameFirstLikeThatBefore) {
  RoundHistory apart;
  run(apart, {0, 1, 0, 1, 0});
  apart.opened(0);  // 1 would be next
  EXPECT_NE(next(apart), 1U);

  RoundHistory together;
  for (int step = 0; step < 3; ++step) {
    together.opened(0);
    together.opened(1);
    together.ended(1);
    together.ended(0);
  }
  together.opened(0);
  EXPECT_EQ(next(together), 1U);
}

TEST(RoundHistory, KnowsWhatIsOpenBeside) {
  RoundHistory history;
  for (int step = 0; step < 3; ++step) {
    for (const std::size_t id : {0, 1, 2}) history.opened(id);
    for (const std::size_t id : {1, 2, 0}) history.ended(id);
    run(history, {3});
  }
  const std::vector<std::vector<std::size_t>> beside{{0, 2}, {0}, {}, {}};
  for (const std::size_t at : {0, 1, 2, 3}) {
    const auto* end = history.next(kAny);
    ASSERT_NE(end, nullptr);
    EXPECT_EQ(end->id, (std::vector<std::size_t>{1, 2, 0, 3}[at]));
    EXPECT_EQ(end->beside, beside[at]);
    EXPECT_EQ(history.beside(end->id), beside[at]);
    const auto id = end->id;
    history.opened(id);
    history.ended(id);
  }
}

}  // namespace
}  // namespace kolo::engine

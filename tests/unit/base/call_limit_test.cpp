#include "base/call_limit.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kolo::base {
namespace {

std::exception_ptr error(const std::string& text) { return std::make_exception_ptr(std::runtime_error(text)); }

template <class Call>
std::string text_of(Call call) {
  try {
    call();
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
  return "";
}

TEST(CallLimit, CallsAreNumbered) {
  CallLimit calls;
  EXPECT_EQ(calls.begin(), 0U);
  EXPECT_EQ(calls.begin(), 1U);
  EXPECT_EQ(calls.reached(), 2U);
}

TEST(CallLimit, CallsFromTheLimitOnThrowItsErrorAndEarlierOnesGoOn) {
  CallLimit calls;
  EXPECT_EQ(calls.begin(), 0U);
  EXPECT_FALSE(calls.limit(1, 7, error("gone")));
  calls.check(0);
  EXPECT_EQ(text_of([&] { calls.check(1); }), "gone");
  calls.check_newest();
  EXPECT_EQ(text_of([&] { calls.begin(); }), "gone");
  EXPECT_EQ(text_of([&] { calls.check_newest(); }), "gone");
}

TEST(CallLimit, SaysWhetherACallBeyondHasBegun) {
  CallLimit calls;
  calls.begin();
  EXPECT_TRUE(calls.limit(0, 7, error("gone")));
}

TEST(CallLimit, WhoBeginsBeyondItIsReported) {
  CallLimit calls;
  std::vector<std::uint64_t> overtaken;
  calls.set_hooks({.listen = {}, .settle = {}, .overtake = [&](auto failure) { overtaken.push_back(failure); }});
  EXPECT_FALSE(calls.limit(0, 7, error("gone")));
  EXPECT_EQ(text_of([&] { calls.begin(); }), "gone");
  EXPECT_THAT(overtaken, testing::ElementsAre(7U));
}

TEST(CallLimit, ALiftedFailureLimitsNothing) {
  CallLimit calls;
  calls.limit(0, 7, error("first"));
  calls.limit(1, 8, error("second"));
  calls.lift(7);
  EXPECT_EQ(calls.begin(), 0U);
  EXPECT_EQ(text_of([&] { calls.begin(); }), "second");
}

TEST(CallLimit, AGivenUpCallCountsAsNotReached) {
  CallLimit calls;
  for (int i = 0; i < 3; ++i) calls.begin();
  calls.abandon(2);
  calls.abandon(1);
  EXPECT_EQ(calls.reached(), 1U);
  EXPECT_FALSE(calls.limit(1, 7, error("gone")));
}

TEST(CallLimit, WhileHeldTheNextCallWaits) {
  CallLimit calls;
  calls.begin();
  int waits = 0;
  calls.set_hooks({.listen = {}, .settle = [&] { ++waits, calls.release(); }, .overtake = {}});
  calls.hold();
  calls.check_newest();
  EXPECT_EQ(waits, 0);
  EXPECT_EQ(calls.begin(), 1U);
  EXPECT_EQ(calls.begin(), 2U);
  EXPECT_EQ(waits, 1);
}

TEST(CallLimit, AWaitThatFailsEndsAllCalls) {
  CallLimit calls;
  calls.set_hooks({.listen = {}, .settle = [] { throw std::runtime_error("nobody answers"); }, .overtake = {}});
  calls.hold();
  EXPECT_EQ(text_of([&] { calls.begin(); }), "nobody answers");
  calls.release();
  EXPECT_EQ(text_of([&] { calls.begin(); }), "nobody answers");
}

// Either begin() throws, or limit() says that a call has begun.
TEST(CallLimit, NobodySlipsThroughBetween) {
  for (int trial = 0; trial < 2000; ++trial) {
    CallLimit calls;
    std::atomic<int> ready{0};
    bool seen = false;
    std::thread engine([&] {
      ++ready;
      while (ready.load() < 2) {
      }
      seen = calls.limit(0, 7, error("gone"));
    });
    ++ready;
    while (ready.load() < 2) {
    }
    const bool refused = !text_of([&] { calls.begin(); }).empty();
    engine.join();
    ASSERT_TRUE(refused || seen) << trial;
  }
}

}  // namespace
}  // namespace kolo::base

#include "torch/stop_signals.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <optional>

namespace kolo {
namespace {

constexpr RoundNotices::Bits kBit = 4;

std::atomic<int> handled{0};

void count(int /*signal*/) { ++handled; }

class OldAction {
 public:
  OldAction(int signal, void (*handler)(int)) : signal_(signal), old_(::signal(signal, handler)) {}
  ~OldAction() { ::signal(signal_, old_); }

 private:
  int signal_;
  void (*old_)(int);
};

TEST(StopSignals, EachSignalRaisesTheBitOfAllObjects) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGINT}) {
    RoundNotices first;
    RoundNotices second;
    const StopSignals one(first, kBit);
    const StopSignals two(second, kBit);
    EXPECT_FALSE(one.any());
    ::raise(signal);
    EXPECT_EQ(first.raised(), kBit) << signal;
    EXPECT_EQ(second.raised(), kBit) << signal;
    EXPECT_TRUE(one.any());
    EXPECT_GE(one.since_first().count(), 0);
  }
}

TEST(StopSignals, EarlierHandlerIsCalledAndComesBack) {
  const OldAction old(SIGUSR1, count);
  handled = 0;
  RoundNotices notices;
  {
    const StopSignals signals(notices, kBit);
    ::raise(SIGUSR1);
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(notices.raised(), kBit);
    notices.lower(kBit);
  }
  ::raise(SIGUSR1);
  EXPECT_EQ(handled, 2);
  EXPECT_EQ(notices.raised(), 0U);
}

TEST(StopSignals, IgnoredSignalStaysIgnored) {
  const OldAction old(SIGINT, SIG_IGN);
  RoundNotices notices;
  const StopSignals signals(notices, kBit);
  ::raise(SIGINT);
  ::raise(SIGINT);
  EXPECT_EQ(notices.raised(), 0U);
}

TEST(StopSignalsDeathTest, SecondInterruptEndsTheProcess) {
  RoundNotices notices;
  EXPECT_EXIT(
      {
        const StopSignals signals(notices, kBit);
        ::raise(SIGINT);
        if (notices.raised() == kBit) ::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalsDeathTest, AfterTheLastObjectASignalHasItsOldEffect) {
  RoundNotices notices;
  EXPECT_EXIT(
      {
        { const StopSignals signals(notices, kBit); }
        ::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace kolo

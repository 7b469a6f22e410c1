#include "device/event_clock.h"

#include <gtest/gtest.h>

#include "kolo/error.h"
#include "support/device/simulated_device.h"

namespace kolo::device {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Mark = telemetry::DeviceClock::Mark;

constexpr std::int64_t kMs = 1'000'000;

class EventClockTest : public testing::Test {
 protected:
  Mark mark() { return clock_.record(stream_.view()).value(); }
  void work(std::chrono::nanoseconds time) {
    device_.enqueue(stream_.view().handle, {.what = "operation", .takes = time});
  }
  // Both the host's clock and the device's go on.
  void pass(std::chrono::nanoseconds time) {
    now_ += time.count();
    device_.pass_time(time);
  }
  std::int64_t time_of(Mark mark) {
    device_.drain();
    return clock_.time_of(mark).value();
  }

  test::SimulatedDevice device_{{.devices = 2}};
  cuda::RuntimePtr runtime_ = std::make_shared<const cuda::Runtime>(device_.api());
  cuda::OwnStream stream_{runtime_, 1};
  std::int64_t now_ = 5'000 * kMs;  // the host's clock
  EventClock clock_{runtime_, 1, [this] { return now_; }};
};

TEST_F(EventClockTest, TimesAreThoseOfTheHostsClock) {
  const Mark first = mark();
  work(microseconds(250));
  const Mark second = mark();
  pass(milliseconds(2));
  const Mark third = mark();
  EXPECT_EQ(time_of(first), 5'000 * kMs);
  EXPECT_EQ(time_of(second), 5'000 * kMs + 250'000);
  EXPECT_EQ(time_of(third), 5'002 * kMs);
}

TEST_F(EventClockTest, AMarkThatIsRecordedAgainHasTheLaterTime) {
  static_cast<void>(mark());
  const Mark again = mark();
  work(microseconds(40));
  clock_.record_again(again, stream_.view());
  EXPECT_EQ(time_of(again), 5'000 * kMs + 40'000);
}

TEST_F(EventClockTest, AMarkHasNoTimeBeforeTheDevicePassesIt) {
  bool held = true;
  const Mark before = mark();
  device_.enqueue(stream_.view().handle, {.what = "held", .ready = [&] { return !held; }});
  const Mark behind = mark();
  while (!clock_.time_of(before)) {
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(clock_.time_of(behind));
  held = false;
  while (!clock_.time_of(behind)) {
  }
}

TEST_F(EventClockTest, EventsOfReleasedMarksAreUsedAgain) {
  for (int step = 0; step < 50; ++step) {
    const Mark first = mark();
    const Mark second = mark();
    EXPECT_LE(time_of(first), time_of(second));
    clock_.release(first);
    clock_.release(second);
  }
  EXPECT_EQ(device_.timed_events(), 2 + 1);  // and the reference
}

TEST_F(EventClockTest, TheFirstMarkIsTheFirstUseOfTheDevice) {
  const int events = device_.live_events();
  const int streams = device_.live_streams();
  {
    EventClock unused(runtime_, 1);
    EXPECT_EQ(device_.live_events(), events);
    EXPECT_EQ(device_.live_streams(), streams);
  }
  static_cast<void>(mark());
  EXPECT_EQ(device_.live_streams(), streams + 1);
  EXPECT_EQ(device_.contexts(), std::set<int>{1});
}

TEST_F(EventClockTest, AStreamThatIsCapturedGetsNoMark) {
  const Mark moved = mark();
  const int records = device_.calls("event_record");
  device_.set_capturing(stream_.view().handle, true);
  EXPECT_FALSE(clock_.record(stream_.view()));
  clock_.record_again(moved, stream_.view());
  EXPECT_EQ(device_.calls("event_record"), records);
  device_.set_capturing(stream_.view().handle, false);
}

// A float has 24 bits: of an hour it tells 0.25 ms, of 250 ms it tells 15 ns.
TEST_F(EventClockTest, TimesStayFineAfterAnHour) {
  constexpr std::chrono::nanoseconds kStep{100'123'457};
  static_cast<void>(mark());
  for (int step = 0; step < 36'000; ++step) {
    pass(kStep);
    const Mark end = mark();
    ASSERT_NEAR(static_cast<double>(time_of(end) - now_), 0, 50) << "step " << step;
    static_cast<void>(time_of(end));  // many marks are asked for at once: the second one sees the new reference
    clock_.release(end);
  }
}

// The device's clock is 1 % slow, or fast: its times are held between the record of a reference and the look at it.
TEST_F(EventClockTest, DriftOfTheDevicesClockDoesNotAddUp) {
  for (const int drift : {-1, 1}) {
    for (int step = 0; step < 1000; ++step) {
      now_ += 100 * kMs;
      device_.pass_time(microseconds(100'000 + 1000 * drift));
      const Mark end = mark();
      const auto time = time_of(end);
      ASSERT_NEAR(static_cast<double>(time - now_), 0, 5.0 * kMs) << "step " << step;
      static_cast<void>(time_of(end));  // as above
      clock_.release(end);
    }
  }
}

TEST_F(EventClockTest, ADeviceThatFailsThrows) {
  const Mark before = mark();
  device_.fail("event_record", 719);
  EXPECT_THROW(static_cast<void>(clock_.record(stream_.view())), BackendError);
  device_.fail("event_elapsed_time", 719);
  EXPECT_THROW(static_cast<void>(clock_.time_of(before)), BackendError);
  const Mark later = mark();
  EXPECT_EQ(time_of(later), 5'000 * kMs);
}

}  // namespace
}  // namespace kolo::device

// Times of events on the simulated device: the same under all schedules.
#include <gtest/gtest.h>

#include <cmath>

#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

using std::chrono::microseconds;

// From `from` to `to` in microseconds, once the device has passed both.
double time_between(Rig& rig, const cuda::Event& from, const cuda::Event& to) {
  for (;;) {
    if (const auto ms = cuda::milliseconds_between(*rig.runtime, from, to)) return std::round(*ms * 1e3);
  }
}

struct Times {
  explicit Times(Rig& rig) : first(rig.runtime, 0, cuda::Timing::on), second(rig.runtime, 0, cuda::Timing::on) {}
  cuda::Event first;
  cuda::Event second;
};

void enqueue(Rig& rig, const cuda::OwnStream& stream, int us) {
  rig.device.enqueue(stream.view().handle, {.what = "operation", .takes = microseconds(us)});
}

TEST(SimulatedTime, AnOperationBeginsWhenAllThatItIsBehindHasEnded) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedDevice device({.seed = seed});
    Rig rig(device);
    Times times(rig);
    times.first.record(rig.a.view());
    enqueue(rig, rig.a, 30);
    enqueue(rig, rig.b, 50);
    rig.order(rig.a.view(), rig.b.view());
    enqueue(rig, rig.a, 7);
    times.second.record(rig.a.view());
    ASSERT_EQ(time_between(rig, times.first, times.second), 57) << "seed " << seed;
    ASSERT_EQ(time_between(rig, times.second, times.first), -57) << "seed " << seed;
  }
}

TEST(SimulatedTime, AnOperationBeginsNotBeforeTheHostEnqueuesIt) {
  SimulatedDevice device;
  Rig rig(device);
  Times times(rig);
  enqueue(rig, rig.a, 10);
  times.first.record(rig.a.view());
  device.pass_time(microseconds(100));
  enqueue(rig, rig.a, 5);
  times.second.record(rig.a.view());
  EXPECT_EQ(time_between(rig, times.first, times.second), 95);
}

TEST(SimulatedTime, CopiesTakeWhatTheOptionsSay) {
  SimulatedDevice device({.takes = [](const std::string& what) { return microseconds(what == "copy" ? 20 : 3); }});
  Rig rig(device);
  Times times(rig);
  times.first.record(rig.a.view());  // takes 3, as the next one
  rig.copy(rig.y.data(), rig.x.data(), rig.a.view());
  times.second.record(rig.a.view());
  EXPECT_EQ(time_between(rig, times.first, times.second), 23);
}

TEST(SimulatedTime, ThereIsNoneBeforeBothEventsHavePassed) {
  SimulatedDevice device;
  Rig rig(device);
  Times times(rig);
  bool held = true;
  times.first.record(rig.a.view());
  rig.device.enqueue(rig.a.view().handle, {.what = "held", .ready = [&] { return !held; }});
  times.second.record(rig.a.view());
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(cuda::milliseconds_between(*rig.runtime, times.first, times.second));
    EXPECT_EQ(rig.runtime->api().take_last_error(), cuda::kSuccess);
  }
  held = false;
  EXPECT_EQ(time_between(rig, times.first, times.second), 0);
}

TEST(SimulatedTime, OfAnEventWithoutTiming) {
  expect_reported(Fault::bad_call, [](Rig& rig, bool right) {
    const cuda::Timing timing = right ? cuda::Timing::on : cuda::Timing::off;
    cuda::Event from(rig.runtime, 0, cuda::Timing::on);
    cuda::Event to(rig.runtime, 0, timing);
    from.record(rig.a.view());
    to.record(rig.a.view());
    float milliseconds = 0;
    rig.runtime->api().event_elapsed_time(&milliseconds, from.handle(), to.handle());
  });
}

TEST(SimulatedTime, OfAnEventThatWasNeverRecorded) {
  expect_reported(Fault::unrecorded_event, [](Rig& rig, bool right) {
    cuda::Event from(rig.runtime, 0, cuda::Timing::on);
    cuda::Event to(rig.runtime, 0, cuda::Timing::on);
    from.record(rig.a.view());
    if (right) to.record(rig.a.view());
    float milliseconds = 0;
    rig.runtime->api().event_elapsed_time(&milliseconds, from.handle(), to.handle());
  });
}

}  // namespace
}  // namespace kolo::test

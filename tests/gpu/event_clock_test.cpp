// Times of a real device for the step log: on the axis of the CPU's clock.
#include "device/event_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/memory.h"
#include "gpu/gpu.h"

namespace kolo::test {
namespace {

constexpr std::size_t kBytes = std::size_t{32} << 20;

TEST(EventClock, TimesAreInOrderAndBetweenTheFirstRecordAndTheLastLook) {
  const cuda::RuntimePtr& runtime = gpu_runtime();
  const cuda::OwnStream stream(runtime, 0);
  const cuda::DeviceBuffer memory(runtime, 0, kBytes);
  device::EventClock clock(runtime, 0);
  const std::int64_t before = telemetry::Recorder::now_ns();
  std::vector<device::EventClock::Mark> marks;
  for (int i = 0; i < 100; ++i) {
    marks.push_back(clock.record(stream.view()).value());
    cuda::fill_zero(*runtime, memory.data(), memory.size(), stream.view());
  }
  while (!clock.time_of(marks.back())) {
  }
  const std::int64_t after = telemetry::Recorder::now_ns();
  std::int64_t last = before;
  for (const auto mark : marks) {
    const std::int64_t time = clock.time_of(mark).value();
    EXPECT_GE(time, last);
    last = time;
  }
  EXPECT_LE(last, after);
  while (!stream.idle()) {
  }
}

}  // namespace
}  // namespace kolo::test

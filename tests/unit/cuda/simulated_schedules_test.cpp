// That schedules are as different as the edges allow, and that what is right is the same under all of them.
#include <algorithm>
#include <array>
#include <map>
#include <thread>

#include "support/thread_ranks.h"
#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

// The order in which three operations of three streams run.
std::string order_of(std::uint64_t seed) {
  SimulatedDevice device({.seed = seed});
  Rig rig(device);
  std::string order;
  const auto add = [&](char letter, Stream stream) {
    device.enqueue(stream.handle, {.what = "letter", .run = [&order, letter] { order += letter; }});
  };
  add('a', rig.a.view());
  add('b', rig.b.view());
  add('c', rig.c.view());
  device.drain();
  return order;
}

TEST(SimulatedSchedules, EveryOrderComesAboutAndASeedAlwaysMakesTheSame) {
  std::map<std::string, int> orders;
  for (std::uint64_t seed = 0; seed < 300; ++seed) ++orders[order_of(seed)];
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_GE(count, 15) << order;
  EXPECT_EQ(order_of(77), order_of(77));
}

TEST(SimulatedSchedules, NothingRunsBeforeSomebodyAsks) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedDevice device({.seed = seed});
    Rig rig(device);
    rig.fill(rig.x, rig.a.view());
    rig.order(rig.b.view(), rig.a.view());
    rig.copy(rig.y.data(), rig.x.data(), rig.b.view());
    ASSERT_EQ(device.queued(), 4U);
    int questions = 1;
    rig.event.record(rig.b.view());
    while (!rig.event.passed()) ++questions;
    ASSERT_EQ(device.queued(), 0U);
    ASSERT_LT(questions, 200);
  }
}

TEST(SimulatedSchedules, AMissingWaitChangesResultsToo) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedDevice device({.seed = seed});
    Rig rig(device);
    rig.fill(rig.x, rig.a.view());
    rig.copy(rig.y.data(), rig.x.data(), rig.b.view());
    device.drain();
    std::byte found{1};
    device.peek(&found, rig.y.data(), 1);
    wrong += found == std::byte{0} ? 0 : 1;
    EXPECT_EQ(device.take_violations().size(), 1U);
  }
  EXPECT_GT(wrong, 20);
  EXPECT_LT(wrong, 80);
}

// What a poll has shown orders what is enqueued later, unless a test wants edges only.
TEST(SimulatedSchedules, PollsOrderIfTheyMay) {
  for (const bool polls_order : {true, false}) {
    SimulatedDevice device({.seed = 4, .polls_order = polls_order});
    Rig rig(device);
    rig.fill(rig.x, rig.a.view());
    rig.event.record(rig.a.view());
    rig.see(rig.event);
    rig.copy(rig.y.data(), rig.x.data(), rig.b.view());
    device.drain();
    EXPECT_EQ(device.take_violations().size(), polls_order ? 0U : 1U);
    rig.copy(rig.pinned.data().data(), rig.y.data(), rig.a.view());  // behind what has blocked
    EXPECT_EQ(device.api().stream_synchronize(rig.a.view().handle), cuda::kSuccess);
    device.host_reads(rig.pinned.data().data(), Rig::kBytes);
    rig.copy(rig.y.data(), rig.pinned.data().data(), rig.b.view());
  }
}

// A sum over ranks as threads, each on a device of its own: takes its input when it has arrived, gives its output when
// it runs.
struct Sum {
  explicit Sum(int of) : ranks(of) {}
  int ranks;
  int arrived = 0;
  int total = 0;
};

Operation part_of(const std::shared_ptr<Sum>& sum, int* value) {
  Operation part{.what = "sum",
                 .ranges = {{value, sizeof *value, Access::read}, {value, sizeof *value, Access::write}}};
  part.arrived = [sum, value] {
    ++sum->arrived;
    sum->total += *value;
  };
  part.ready = [sum] { return sum->arrived == sum->ranks; };
  part.run = [sum, value] { *value = sum->total; };
  return part;
}

TEST(SimulatedSchedules, RanksAsThreadsGetTheSameSumsUnderAll) {
  constexpr int kRanks = 3;
  constexpr int kRounds = 4;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedDevice device({.devices = kRanks, .seed = seed});
    std::array<std::shared_ptr<Sum>, kRounds> sums;
    for (auto& sum : sums) sum = std::make_shared<Sum>(kRanks);
    run_ranks(kRanks, [&](int rank) {
      const auto runtime = std::make_shared<const cuda::Runtime>(device.api());
      cuda::use_device(*runtime, rank);
      const cuda::OwnStream compute(runtime, rank);
      cuda::OwnStream communicate(runtime, rank);
      cuda::EventPool events(runtime, rank);
      const cuda::DeviceBuffer memory(runtime, rank, sizeof(int));
      const cuda::PinnedBuffer host(runtime, rank, sizeof(int));
      auto* const value = reinterpret_cast<int*>(memory.data());
      auto* const seen = reinterpret_cast<int*>(host.data().data());
      int expected = 0;
      for (const auto& sum : sums) {
        *seen = expected + rank;
        cuda::copy(*runtime, value, seen, sizeof(int), compute.view());
        events.order(communicate.view(), compute.view());
        device.enqueue(communicate.view().handle, part_of(sum, value));
        events.order(compute.view(), communicate.view());
        cuda::copy(*runtime, seen, value, sizeof(int), compute.view());
        while (!compute.idle()) std::this_thread::yield();
        device.host_reads(seen, sizeof(int));
        expected = kRanks * expected + kRanks * (kRanks - 1) / 2;
        ASSERT_EQ(*seen, expected);
      }
    });
    ASSERT_TRUE(device.violations().empty());
    ASSERT_EQ(device.live_streams(), 0);
    ASSERT_EQ(device.live_events(), 0);
    ASSERT_EQ(device.pinned_bytes(), 0U);
  }
}

}  // namespace
}  // namespace kolo::test

// Operations that wait for each other, as collectives of ranks do that are launched in different orders.
#include <optional>
#include <thread>

#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

// An operation of two parts that run together: neither before both have arrived.
struct Meeting {
  int arrived = 0;
  std::vector<OperationId> parts;
  bool given_up = false;
};

Operation part_of(const std::shared_ptr<Meeting>& meeting, const std::string& what) {
  Operation part{.what = what};
  part.arrived = [meeting] { ++meeting->arrived; };
  part.ready = [meeting] { return meeting->arrived == 2 || meeting->given_up; };
  part.waits_on = [meeting] { return meeting->parts; };
  part.missing = [meeting] { return meeting->parts.size() < 2 ? "the other part" : ""; };
  return part;
}

void join_in(SimulatedDevice& device, const std::shared_ptr<Meeting>& meeting, const std::string& what, Stream stream) {
  const auto held = device.lock();
  meeting->parts.push_back(device.enqueue(stream.handle, part_of(meeting, what)));
}

TEST(SimulatedDeadlocks, TwoMeetingsInDifferentOrders) {
  expect_reported(Fault::deadlock, [](Rig& rig, bool right) {
    const auto one = std::make_shared<Meeting>();
    const auto two = std::make_shared<Meeting>();
    join_in(rig.device, one, "one of a", rig.a.view());
    join_in(rig.device, two, "two of a", rig.a.view());
    if (right) join_in(rig.device, one, "one of b", rig.b.view());
    join_in(rig.device, two, "two of b", rig.b.view());
    if (!right) join_in(rig.device, one, "one of b", rig.b.view());
    rig.event.record(rig.a.view());
    if (right) return rig.see(rig.event);
    EXPECT_THROW(rig.see(rig.event), BackendError);  // at once: no deadline is waited for
    EXPECT_NE(rig.runtime->api().stream_synchronize(rig.b.view().handle), cuda::kSuccess);
    one->given_up = two->given_up = true;
    rig.device.changed();
    EXPECT_TRUE(rig.device.drain());
  });
}

TEST(SimulatedDeadlocks, ThroughAnEventAndAnOrderOfRunning) {
  for (const bool event : {true, false}) {
    expect_reported(Fault::deadlock, [event](Rig& rig, bool right) {
      const auto meeting = std::make_shared<Meeting>();
      const OperationId first = rig.device.enqueue(rig.c.view().handle, {.what = "first"});
      if (!right) join_in(rig.device, meeting, "part in c", rig.c.view());
      const OperationId last = rig.device.enqueue(rig.c.view().handle, {.what = "last"});
      if (event) {
        rig.order(rig.b.view(), rig.c.view());
      } else {
        rig.device.enqueue(rig.b.view().handle, {.what = "behind", .behind = {first, last}});
      }
      join_in(rig.device, meeting, "part in b", rig.b.view());
      if (right) join_in(rig.device, meeting, "part in c", rig.c.view());
      EXPECT_EQ(rig.device.drain(), right);
    });
  }
}

TEST(SimulatedDeadlocks, APartThatNobodyEnqueues) {
  expect_reported(Fault::deadlock, [](Rig& rig, bool right) {
    const auto meeting = std::make_shared<Meeting>();
    join_in(rig.device, meeting, "part of a", rig.a.view());
    for (int i = 0; i < 5; ++i) rig.device.run_some();
    EXPECT_TRUE(rig.device.violations().empty());  // it may still come
    if (right) join_in(rig.device, meeting, "part of b", rig.b.view());
    EXPECT_EQ(rig.device.drain(), right);
  });
}

TEST(SimulatedDeadlocks, SayWhatWaitsForWhat) {
  SimulatedDevice device;
  Rig rig(device);
  const auto meeting = std::make_shared<Meeting>();
  join_in(device, meeting, "part of a", rig.a.view());
  rig.order(rig.b.view(), rig.a.view());
  EXPECT_FALSE(device.drain());
  const auto found = device.take_violations();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].text.find("part of a (1 in stream 1 of device 0); waits for the other part"), std::string::npos)
      << found[0].text;
  EXPECT_NE(found[0].text.find("waits for record of an event (2 in stream 1 of device 0)"), std::string::npos)
      << found[0].text;
  meeting->given_up = true;
  device.changed();
  EXPECT_TRUE(device.drain());
}

TEST(SimulatedDeadlocks, ABlockingCallWaitsForOtherThreads) {
  SimulatedDevice device({.seed = 5});
  Rig rig(device);
  const auto meeting = std::make_shared<Meeting>();
  join_in(device, meeting, "part of a", rig.a.view());
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    join_in(device, meeting, "part of b", rig.b.view());
  });
  EXPECT_EQ(rig.runtime->api().stream_synchronize(rig.a.view().handle), cuda::kSuccess);
  other.join();
}

TEST(SimulatedDeadlocks, ABlockingCallWaitsNotForever) {
  SimulatedDevice device({.seed = 5, .patience = std::chrono::milliseconds(20)});
  Rig rig(device);
  const auto meeting = std::make_shared<Meeting>();
  join_in(device, meeting, "part of a", rig.a.view());
  EXPECT_NE(rig.runtime->api().stream_synchronize(rig.a.view().handle), cuda::kSuccess);
  const auto found = device.take_violations();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::deadlock);
  join_in(device, meeting, "part of b", rig.b.view());
}

}  // namespace
}  // namespace kolo::test

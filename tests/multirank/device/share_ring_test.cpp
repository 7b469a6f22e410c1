// How shares go between devices by a network that takes their memory: nothing through the host, no message before the
// device has come to it, no wait of the host.
#include <gmock/gmock.h>

#include <barrier>

#include "device/ring_crossing.h"
#include "multirank/device/gate.h"
#include "multirank/device/sum_table.h"
#include "multirank/device/trainer.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using device::RingCrossing;
using testing::HasSubstr;

constexpr std::size_t kFloats = RingCrossing::kSegmentBytes / sizeof(float);

DeviceWorld::Options ring(const Hosts& hosts, std::uint64_t seed = 1) {
  auto options = in_two_steps(TwoSteps::ring, hosts);
  options.seed = seed;
  return options;
}

// One large gradient: its mean, after some rounds.
void check_mean(DeviceWorld& world, std::int64_t count) {
  world.run([&](Context& context) {
    Trainer trainer(world, context, {count});
    const float mean = static_cast<float>(context.size() - 1) / 2;
    for (int round = 0; round < 3; ++round) {
      trainer.backward(static_cast<float>(context.rank() + round));
      trainer.reducer->finish(trainer.model.user());
      const auto found = trainer.model.use(trainer.reducer->gradient(0));
      trainer.synchronize();
      EXPECT_EQ(far_from(mean + static_cast<float>(round), *found), 0) << "round " << round;
    }
  });
}

// More segments a block than travel at a time, an odd one, and fewer elements than there are hosts.
TEST(ShareRing, SumsWhateverTheSize) {
  for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 1, 2}, Hosts{0, 0, 1, 1, 2}}) {
    for (const std::size_t count : {2 * 7 * kFloats, 3 * kFloats + 17, std::size_t{1}}) {
      DeviceWorld world(ring(hosts));
      check_mean(world, static_cast<std::int64_t>(count));
    }
  }
}

TEST(ShareRing, NothingIsCarriedThroughTheHosts) {
  DeviceWorld world(ring({0, 0, 1, 1}));
  world.run([&](Context& context) {
    Trainer trainer(world, context, {4 * kFloats});
    for (int round = 0; round < 3; ++round) {
      trainer.backward(1);
      trainer.reducer->finish(trainer.model.user());
    }
    trainer.synchronize();
    EXPECT_EQ(context.counters().at("bytes_between_devices"), 3 * 2 * RingCrossing::kSegmentBytes)
        << "half of the gradient, as two ranks of each host share it";
    EXPECT_EQ(context.counters().at("bytes_carried"), 0U);
  });
}

// The other host's device has not come to its part: finish() returns when it has, and a host that waits sends nothing.
TEST(ShareRing, ADeviceThatIsLateIsWaitedForByLooking) {
  SumTable table;
  DeviceWorld world(ring({0, 1}), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  std::atomic<bool> late = false;
  table.before_sum = [&](int device, cuda::StreamHandle stream) {
    if (device == 1 && late.exchange(false)) gate.put_into(stream);
  };
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    after_good_steps(trainer, context, 1, [&] { late = true; });
    std::jthread opener;
    if (context.rank() == 0) {
      opener = std::jthread([&] {
        std::this_thread::sleep_for(50ms);
        gate.open();
      });
    }
    const auto found = trainer.step(static_cast<float>(context.rank()));
    trainer.synchronize();
    EXPECT_EQ(far_from(0.5F, *found), 0);
  });
}

// What the host must have seen before a message goes: else the network reads what the device still writes.
class ShareRingMutation : public testing::TestWithParam<SumTable::Of> {};
INSTANTIATE_TEST_SUITE_P(Events, ShareRingMutation, testing::Values(SumTable::Of::sums, SumTable::Of::shares));

TEST_P(ShareRingMutation, AHostThatSendsTooEarlyIsFound) {
  if (kThreadSanitized) GTEST_SKIP() << kRacesOnPurpose;
  std::atomic<int> found = 0;
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2U : 8U); ++seed) {
    SumTable table;
    DeviceWorld world(ring({0, 0, 1, 1}, seed), [&](const cuda::RuntimeApi& real) { return table.over(real); });
    Gate gate(world.device());
    std::atomic<bool> gated = false;
    table.before_sum = [&](int, cuda::StreamHandle stream) {
      if (gated) gate.put_into(stream);  // it cannot have run when the message goes
    };
    world.run([&](Context& context) {
      Trainer trainer(world, context);
      after_good_steps(trainer, context, 2, [&] {
        gated = GetParam() == SumTable::Of::sums;
        table.hurry(GetParam());
      });
      const auto result = trainer.step(static_cast<float>(context.rank()));
      context.communicator().barrier(20s);
      gate.open();
      trainer.synchronize();
      if (far_from(1.5F, *result) > 0) ++found;
    });
    EXPECT_GT(table.hurried(), 0);
    for (const auto& each : world.device().take_violations()) found += each.fault == Fault::host_race ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

// The device of rank 2 stops at a sum. Rank 0, which has the same share, waits for rank 2's message, and that for
// itself.
TEST(ShareRing, AMessageThatDoesNotComeIsATimeoutThatNamesItsRank) {
  SumTable table;
  auto options = ring({0, 0, 1});
  options.config.timeout = 2s;
  DeviceWorld world(options, [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  std::atomic<bool> gated = false;
  std::barrier<> told(3);
  table.before_sum = [&](int device, cuda::StreamHandle stream) {
    if (gated && device == 2) gate.put_into(stream);
  };
  world.run([&](Context& context) {
    Attendance attendance(told);
    Trainer trainer(world, context);
    after_good_steps(trainer, context, 1, [&] { gated = true; });
    if (context.rank() == 1) std::this_thread::sleep_for(500ms);  // it has no share: the others' deadlines are first
    try {
      trainer.step(2);
      ADD_FAILURE() << "rank " << context.rank() << " did not wait";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.missing(), testing::ElementsAre(2)) << "rank " << context.rank();
      EXPECT_THAT(error.what(), HasSubstr("waiting for rank"));
    }
    gate.open();
    attendance.meet();  // before anybody leaves
  });
}

// A bucket whose gradients are not there yet keeps no other one's sums waiting.
TEST(ShareRing, BucketsDoNotWaitForEachOther) {
  SumTable table;
  auto options = ring({0, 1, 2});
  options.config.bucket_bytes = 64 * 1024;
  options.config.last_bucket_bytes = 1024;
  DeviceWorld world(options, [&](const cuda::RuntimeApi& real) { return table.over(real); });
  std::atomic<bool> counting = false;
  std::atomic<int> sums = 0;
  table.before_sum = [&](int, cuda::StreamHandle) { sums += counting ? 1 : 0; };
  Gate gate(world.device());
  world.run([&](Context& context) {
    Trainer trainer(world, context, {12000, 100});
    const auto round = [&](bool gated) {
      for (const std::size_t index : {0U, 1U}) {
        if (gated && index == 1) gate.put_into(trainer.model.backward());
        trainer.model.make(index, 1);
        trainer.reducer->contribute(index, trainer.model.data(index), trainer.model.backward());
      }
      trainer.reducer->finish(trainer.model.user());
    };
    round(false);
    round(false);
    trainer.synchronize();
    context.communicator().barrier(20s);
    counting = true;
    context.communicator().barrier(20s);
    std::jthread opener;
    if (context.rank() == 0) {
      opener = std::jthread([&](const std::stop_token& end) {  // two sums on each rank are the first bucket's
        while (sums < 6 && !end.stop_requested()) std::this_thread::sleep_for(1ms);
        gate.open();
      });
    }
    round(true);
    trainer.synchronize();
  });
  EXPECT_GE(sums, 6);
}

// A launch that a device refuses ends the group, with an error on all ranks.
TEST(ShareRing, ASumThatCannotBeStartedEndsTheGroup) {
  SumTable table;
  DeviceWorld world(ring({0, 1}), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  std::atomic<bool> armed = false;
  table.before_sum = [&](int device, cuda::StreamHandle) {
    if (device == 0 && armed.exchange(false)) world.device().fail("launch", 999);
  };
  std::atomic<int> ended = 0;
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    after_good_steps(trainer, context, 1, [&] { armed = true; });
    try {
      for (int step = 0; step < 3; ++step) trainer.step(2);
    } catch (const Error&) {
      ++ended;
    }
  });
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace kolo::test

// What the two steps do when ranks, devices, NCCL or the making of communicators fail: every rank is told, with a type.
#include <gmock/gmock.h>

#include <barrier>

#include "multirank/device/gate.h"
#include "multirank/device/share_table.h"
#include "multirank/device/trainer.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

DeviceWorld::Options two_by_two(TwoSteps way, std::chrono::milliseconds timeout = 20s) {
  auto config = quick();
  config.timeout = timeout;
  return in_two_steps(way, {0, 0, 1, 1}, config);
}

class ShareFailures : public testing::TestWithParam<TwoSteps> {};
INSTANTIATE_TEST_SUITE_P(Ways, ShareFailures, testing::ValuesIn(kTwoSteps));

TEST_P(ShareFailures, AFrozenRoundSendsNoControlMessage) {
  DeviceWorld world(two_by_two(GetParam()));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    for (int step = 0; step < 3; ++step) trainer.step(1);  // what the first one had to say has left
    context.communicator().barrier(20s);
    const auto before = context.counters().at("control_messages");
    for (int step = 0; step < 5; ++step) trainer.step(1);
    EXPECT_EQ(context.counters().at("control_messages"), before);
    context.communicator().barrier(20s);  // nobody leaves before, of which the others tell each other
  });
}

TEST_P(ShareFailures, AnExceptionOnOneRankReachesTheOthersAndTheNextRoundWorks) {
  DeviceWorld world(two_by_two(GetParam()));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    if (context.rank() == 1) {
      EXPECT_THROW(context.run([] { throw std::runtime_error("a bad batch"); }), std::runtime_error);
    } else {
      EXPECT_THROW(trainer.step(3), PeerFailedError);
    }
    const auto found = trainer.step(5);
    trainer.synchronize();
    EXPECT_EQ(far_from(5, *found), 0);
  });
}

TEST_P(ShareFailures, ARankThatLeavesInsteadOfARoundIsLost) {
  DeviceWorld world(two_by_two(GetParam()));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    if (context.rank() == 2) return;
    try {
      trainer.step(2);
      ADD_FAILURE() << "rank " << context.rank() << " went on";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.rank(), 2);
    }
  });
}

// NCCL says so some time after the call, on rank 1 of every communicator: also those who are in none with it end.
TEST_P(ShareFailures, AnErrorOfNcclEndsTheGroup) {
  DeviceWorld world(two_by_two(GetParam(), 5s));
  std::barrier<> told(4);  // nobody leaves before, which the others might hear first
  world.run([&](Context& context) {
    Attendance attendance(told);
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    attendance.meet();  // not a barrier of the group that is about to end
    if (context.rank() == 3) world.nccl().break_rank(1, nccl::Result::remote_error, "the link is down");
    step_until_error(trainer, "the link is down");
    attendance.meet();
  });
}

// Its neighbours wait for it in NCCL, and the other host for all of them; nobody longer than the timeout.
TEST_P(ShareFailures, ACommunicatorThatCannotBeMadeOnOneRankIsAnErrorOnAll) {
  DeviceWorld world(two_by_two(GetParam(), 2s));
  world.nccl().fail("init", nccl::Result::system_error);
  std::atomic<int> told = 0;
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {10}, false);
    try {
      context.engine().make_reducer(model.table(), model.options());
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
      ++told;
    }
  });
  EXPECT_EQ(told, 4);
}

// One rank's device refuses. The others hear of that, or that a rank has left because of it, whatever comes first.
TEST(MixedFailures, ACopyThatFailsEndsTheGroup) {
  DeviceWorld world(two_by_two(TwoSteps::staged));
  std::atomic<int> heard = 0;
  world.run([&](Context& context) {
    try {
      step_without_copies(world, context);
    } catch (const BackendError& error) {
      ++heard;
      EXPECT_THAT(error.what(), HasSubstr("cudaMemcpyAsync of "));
    } catch (const PeerLostError&) {
    }
  });
  EXPECT_GT(heard, 0);
}

// The device of rank 3 stops in the middle of its share. Rank 1, which has the same share, waits for rank 3's piece;
// the others for both at the end.
TEST(MixedFailures, APieceThatDoesNotComeIsATimeoutThatNamesItsRank) {
  ShareTable table;
  DeviceWorld world(two_by_two(TwoSteps::staged, 2s), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  std::atomic<bool> gated = false;
  std::barrier<> told(4);
  table.before_out = [&](const PieceCopy& copy) {
    if (gated && copy.device == 3) gate.put_into(copy.stream);
  };
  world.run([&](Context& context) {
    Attendance attendance(told);
    Trainer trainer(world, context);
    after_good_steps(trainer, context, 1, [&] { gated = true; });
    try {
      trainer.step(2);
      ADD_FAILURE() << "rank " << context.rank() << " did not wait";
    } catch (const TimeoutError& error) {
      EXPECT_FALSE(error.missing().empty());
      EXPECT_THAT(error.what(), HasSubstr("waiting for rank"));
    }
    gate.open();
    attendance.meet();  // before anybody leaves
  });
}

TEST(MixedChoice, NcclThatIsMissingIsAnErrorOnAllRanks) {
  auto options = two_by_two(TwoSteps::staged);
  options.without_nccl = {{2, "none"}};
  DeviceWorld world(options);
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {10}, false);
    try {
      context.engine().make_reducer(model.table(), model.options());
      ADD_FAILURE() << "rank " << context.rank() << " was not told";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("KOLO_DEVICE_REDUCTION=mixed, but there is no NCCL on rank 2"));
    }
    context.communicator().barrier(20s);
  });
}

}  // namespace
}  // namespace kolo::test

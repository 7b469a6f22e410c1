// How shares go through the hosts' memory: pieces that are copied out, travel and are copied back at the same time, and
// every byte once for each host.
#include <gtest/gtest.h>

#include "device/staged_crossing.h"
#include "multirank/device/gate.h"
#include "multirank/device/share_table.h"
#include "multirank/device/trainer.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using device::StagedCrossing;

constexpr std::size_t kPieces = 4;  // of each share of the one large gradient, on hosts of two ranks
const std::vector<std::int64_t> kOneLarge{2 * kPieces * StagedCrossing::kPieceBytes / sizeof(float)};
const Hosts kTwoByTwo{0, 0, 1, 1};

DeviceWorld::Options mixed(std::uint64_t seed = 1) {
  auto options = in_two_steps(TwoSteps::staged, kTwoByTwo);
  options.seed = seed;
  return options;
}

std::shared_ptr<std::vector<float>> step(Trainer& trainer, float value) {
  trainer.backward(value);
  trainer.reducer->finish(trainer.model.user());
  return trainer.model.use(trainer.reducer->gradient(0));
}

// On every rank the third piece is let out of the device only when the first two are on their way back into it, on all
// ranks. A share that went as a whole, or step by step, would never end.
TEST(SharePieces, TravelAndReturnWhileLaterOnesAreStillOnTheDevice) {
  ShareTable table;
  DeviceWorld world(mixed(), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  std::atomic<int> back = 0;
  table.before_out = [&](const PieceCopy& copy) {
    if (copy.offset == 2 * StagedCrossing::kPieceBytes) gate.put_into(copy.stream);
  };
  table.before_in = [&](const PieceCopy& copy) {
    if (copy.offset < 2 * StagedCrossing::kPieceBytes && ++back == 2 * 4) gate.open();
  };
  world.run([&](Context& context) {
    Trainer trainer(world, context, kOneLarge);
    const auto found = step(trainer, static_cast<float>(context.rank()));
    trainer.synchronize();
    EXPECT_EQ(far_from(1.5F, *found), 0);
  });
  EXPECT_EQ(back, 2 * 4);
}

// All pieces travel although the first is not back in the device; and finish() does not wait for that either.
TEST(SharePieces, TravelWhileEarlierOnesAreStillOnTheirWayBack) {
  ShareTable table;
  DeviceWorld world(mixed(), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  std::atomic<int> back = 0;
  table.before_in = [&](const PieceCopy& copy) {
    ++back;
    if (copy.offset == 0) gate.put_into(copy.stream);
  };
  world.run([&](Context& context) {
    Trainer trainer(world, context, kOneLarge);
    const auto found = step(trainer, static_cast<float>(context.rank()));
    EXPECT_EQ(far_from(0, *found), 0) << "not yet";
    context.communicator().barrier(20s);
    EXPECT_EQ(back, static_cast<int>(kPieces) * 4);
    gate.open();
    trainer.synchronize();
    EXPECT_EQ(far_from(1.5F, *found), 0);
  });
}

// The other host's device has not come to its part, so nothing arrives, and this host's pieces are all under way.
TEST(SharePieces, SeveralTravelAtATime) {
  ShareTable table;
  DeviceWorld world(mixed(), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  table.before_out = [&](const PieceCopy& copy) {
    if (copy.device >= 2 && copy.offset == 0) gate.put_into(copy.stream);
  };
  std::atomic<int> sent = 0;
  world.run([&](Context& context) {
    Trainer trainer(world, context, kOneLarge);
    std::jthread watcher;
    if (context.rank() < 2) {
      watcher = std::jthread([&](const std::stop_token& end) {
        while (!end.stop_requested() && context.counters().at("pieces_travelling_max") < kPieces) {
          std::this_thread::sleep_for(1ms);
        }
        if (++sent == 2) gate.open();
      });
    }
    const auto found = step(trainer, static_cast<float>(context.rank()));
    trainer.synchronize();
    EXPECT_EQ(far_from(1.5F, *found), 0);
    EXPECT_LE(context.counters().at("pieces_travelling_max"), StagedCrossing::kMostTravelling);
  });
  EXPECT_EQ(sent, 2);
}

TEST(SharePieces, EveryByteIsCarriedOnceForEachHost) {
  DeviceWorld world(mixed());
  world.run([&](Context& context) {
    Trainer trainer(world, context, kOneLarge);
    step(trainer, 1);
    const auto before = context.counters().at("bytes_carried");
    for (int round = 0; round < 3; ++round) step(trainer, 1);
    trainer.synchronize();
    EXPECT_EQ(context.counters().at("bytes_carried") - before, 3 * kPieces * StagedCrossing::kPieceBytes)
        << "half of the gradient, as two ranks of each host share it";
  });
}

// Without it the bytes are sent that were there before.
TEST(SharePiecesMutation, AHostThatDoesNotWaitForTheCopyOutIsFound) {
  if (kThreadSanitized) GTEST_SKIP() << kRacesOnPurpose;
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2U : 8U); ++seed) {
    ShareTable table;
    table.hurry = true;
    DeviceWorld world(mixed(seed), [&](const cuda::RuntimeApi& real) { return table.over(real); });
    Gate gate(world.device());
    std::atomic<int> wrong = 0;
    world.run([&](Context& context) {
      Trainer trainer(world, context, {100, 3000, 7});
      gate.put_into(trainer.model.user());  // the gradients are not there, for certain
      const auto found = trainer.step(static_cast<float>(context.rank()));
      context.communicator().barrier(20s);
      gate.open();
      trainer.synchronize();
      if (far_from(1.5F, *found) > 0) ++wrong;
    });
    EXPECT_GT(table.hurried, 0);
    EXPECT_EQ(wrong, 4) << "seed " << seed;
    world.device().take_violations();
  }
}

}  // namespace
}  // namespace kolo::test

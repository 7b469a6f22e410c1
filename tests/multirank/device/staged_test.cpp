// What holds only where the hosts reduce gradients of devices: what they wait for, and what a device does to them.
#include <gmock/gmock.h>

#include "multirank/device/gate.h"
#include "multirank/device/staging_table.h"
#include "multirank/device/trainer.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

DeviceWorld::Options by_hosts(int ranks, std::uint64_t seed = 1) {
  auto config = quick();
  config.device_reduction = DeviceReduction::host;
  return {.hosts = one_host(ranks), .seed = seed, .config = config};
}

// Nor does the end of a reducer: its memory stays until the device is done with it.
TEST(Staged, FinishDoesNotWaitForTheCopyIn) {
  StagingTable table;
  DeviceWorld world(by_hosts(2), [&](const cuda::RuntimeApi& real) { return table.over(real); });
  Gate gate(world.device());
  std::atomic<bool> gated = false;
  table.before_copy_in = [&](cuda::StreamHandle stream) {
    if (gated) gate.put_into(stream);
  };
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    auto first = trainer.step(1);
    trainer.synchronize();
    EXPECT_EQ(far_from(1, *first), 0);
    context.communicator().barrier(20s);
    gated = true;
    auto second = trainer.step(2);
    EXPECT_EQ(far_from(0, *second), 0) << "not yet";
    trainer.reducer.reset();
    context.communicator().barrier(20s);
    gate.open();
    trainer.synchronize();
    EXPECT_EQ(far_from(2, *second), 0);
  });
}

TEST(Staged, ADeviceThatDoesNotComeToItsGradientsIsATimeoutThatNamesItsRank) {
  auto options = by_hosts(2);
  options.config.timeout = 1s;
  DeviceWorld world(options);
  Gate gate(world.device());
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    if (context.rank() == 1) gate.put_into(trainer.model.user());
    try {
      trainer.step(2);
      ADD_FAILURE() << "rank " << context.rank() << " did not wait";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.missing(), testing::Contains(1));
      EXPECT_THAT(error.what(), HasSubstr("waiting for rank 1"));
    }
    gate.open();
  });
}

// One rank's device refuses, and all of them are told.
void expect_end(DeviceWorld& world, Context& context, const std::string& word) {
  try {
    step_without_copies(world, context);
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Staged, PagesThatCannotBeLockedEndTheGroup) {
  DeviceWorld world(by_hosts(3));
  world.device().fail("register_host", 2);
  world.run([&](Context& context) { expect_end(world, context, "cudaHostRegister of "); });
}

TEST(Staged, ACopyThatFailsEndsTheGroup) {
  DeviceWorld world(by_hosts(3));
  world.run([&](Context& context) { expect_end(world, context, "cudaMemcpyAsync of "); });
}

// What was page-locked is released with its plan, and no page of it is shared: the simulated device refuses that.
TEST(Staged, EveryPlanReleasesItsPages) {
  auto options = by_hosts(2);
  options.config.bucket_bytes = 1024;
  DeviceWorld world(options);
  world.run([&](Context& context) {
    for (int reducers = 0; reducers < 3; ++reducers) {
      Trainer trainer(world, context, {100, 300, 7, 500, 90});
      for (int step = 1; step < 3; ++step) {
        const auto found = trainer.step(static_cast<float>(step));
        trainer.synchronize();
        EXPECT_EQ(far_from(static_cast<float>(step), *found), 0);
      }
    }
  });
  EXPECT_GE(world.device().calls("register_host"), 2 * 3 * 3);
  EXPECT_EQ(world.device().calls("unregister_host"), world.device().calls("register_host"));
}

// The one wait of the host's own: without it the copies have not come when they are summed, and overwrite the sum.
TEST(StagedMutation, AHostThatDoesNotWaitForTheCopyOutIsFound) {
  if (kThreadSanitized) GTEST_SKIP() << kRacesOnPurpose;
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 3U : 20U); ++seed) {
    StagingTable table;
    table.hurry = true;
    DeviceWorld world(by_hosts(2, seed), [&](const cuda::RuntimeApi& real) { return table.over(real); });
    Gate gate(world.device());
    std::ptrdiff_t wrong = 0;
    world.run([&](Context& context) {
      Trainer trainer(world, context);
      gate.put_into(trainer.model.user());  // the gradients are not there, for certain
      const auto found = trainer.step(static_cast<float>(context.rank()));
      context.communicator().barrier(20s);
      gate.open();
      trainer.synchronize();
      if (context.rank() == 0) wrong = far_from(0.5F, *found);
    });
    EXPECT_GT(table.hurried, 0);
    EXPECT_GT(wrong, 0) << "seed " << seed;
    world.device().take_violations();
  }
}

}  // namespace
}  // namespace kolo::test

// What is in flight on the device when a call has returned, and what looks after it until the next one.
#include <gmock/gmock.h>

#include <barrier>
#include <thread>

#include "base/deadline.h"
#include "multirank/device/gate.h"
#include "multirank/device/nccl_trainee.h"
#include "multirank/device/trainer.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

// Rank 2's device never comes to the reduction, and its process ends: the devices of the others wait for it, and their
// programs for these, as in cudaStreamSynchronize. No engine has a heartbeat, as over MPI, and some have no
// coordinator.
TEST(BetweenCalls, AnEndedPeerEndsTheWaitForTheDevice) {
  for (const auto mode : {CoordinatorMode::never, CoordinatorMode::always}) {
    SCOPED_TRACE(static_cast<int>(mode));
    constexpr int kRanks = 3;
    NcclRanks ranks(kRanks);
    Gate gate(ranks.device);
    run_trainees(ranks, kRanks, 10s, mode, [&](int rank, auto& trainee, auto& liveness, auto& attendance) {
      if (rank == 2) gate.put_into(trainee.stream());
      trainee.step();
      attendance.meet();
      if (rank != 2) {
        EXPECT_FALSE(trainee.is_done());
        liveness.report_loss(2, "its process has ended");
        const base::Deadline deadline(20s);
        while (!trainee.is_done() && !deadline.passed()) std::this_thread::sleep_for(1ms);
        EXPECT_TRUE(trainee.is_done()) << "rank " << rank << "'s device waits for ever";
        try {
          trainee.engine().wait_for_devices();
          ADD_FAILURE() << "rank " << rank << " was not told";
        } catch (const PeerLostError& lost) {
          EXPECT_EQ(lost.rank(), 2);
        }
      }
      attendance.meet();
      if (rank == 2) gate.open();
    });
  }
}

TEST(BetweenCalls, AllThatIsInFlightCanBeWaitedFor) {
  DeviceWorld world({one_host(2)});
  Gate gate(world.device());
  world.run([&](Context& context) {
    context.wait_for_devices();  // of which there are none yet
    Trainer trainer(world, context);
    trainer.step(1);
    context.wait_for_devices();
    gate.put_into(trainer.model.backward());
    auto found = trainer.step(2);
    const std::jthread opener([&] {
      std::this_thread::sleep_for(100ms);
      gate.open();
    });
    context.wait_for_devices();
    trainer.synchronize();
    EXPECT_EQ(far_from(2, *found), 0);
  });
}

// Behind the reduction that fails there is an update already, which the device comes to all the same.
TEST(BetweenCalls, WhatHasFailedIsToldAndUpdatesNothing) {
  DeviceWorld world({one_host(2)});
  Gate gate(world.device());
  std::barrier<> all(2);
  world.run([&](Context& context) {
    Attendance attendance(all);
    Trainer trainer(world, context);
    const cuda::DeviceBuffer weight(world.runtime(), context.rank(), 3000 * sizeof(float));
    const std::vector<float> ones(3000, 1.0F);
    world.device().write(weight.data(), ones.data(), weight.size());
    const auto launcher = context.engine().make_step_launcher();
    const auto update = [&] {
      const auto gradient = trainer.reducer->gradient(1);
      const std::vector<StepTensor> tensors{{3000, gradient.data(), weight.data(), nullptr, nullptr}};
      launcher->launch({0, tensors}, SgdTerms{0.5}, trainer.model.user());
    };
    const auto weight_is = [&](float wanted) {
      trainer.synchronize();
      std::vector<float> found(3000);
      world.device().peek(found.data(), weight.data(), weight.size());
      EXPECT_EQ(far_from(wanted, found), 0) << found[0];
    };
    trainer.step(1);
    update();
    weight_is(0.5F);
    attendance.meet();
    if (context.rank() == 1) gate.put_into(trainer.model.backward());
    trainer.step(1);
    update();
    attendance.meet();
    world.nccl().break_rank(context.rank(), nccl::Result::remote_error, "the link is down");
    try {
      context.wait_for_devices();
      ADD_FAILURE() << "rank " << context.rank() << " was not told";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the link is down"));
    }
    attendance.meet();
    gate.open();
    weight_is(0.5F);
  });
}

// Under no_sync(), say, by the program, while the reduction of the step before is in flight.
TEST(BetweenCalls, AGraphMayBeCaptured) {
  for (const auto mode : {CoordinatorMode::always, CoordinatorMode::never}) {
    auto config = quick();
    config.coordinator = mode;
    DeviceWorld world({.hosts = one_host(2), .seed = 1, .config = config});
    Gate gate(world.device());
    world.run([&](Context& context) {
      Trainer trainer(world, context);
      trainer.step(1);
      context.communicator().barrier(20s);
      gate.put_into(trainer.model.backward());
      auto found = trainer.step(2);
      const cuda::OwnStream captured(world.runtime(), context.rank());
      world.device().set_capturing(captured.view().handle, true);
      std::this_thread::sleep_for(300ms);  // some heartbeats
      world.device().set_capturing(captured.view().handle, false);
      context.communicator().barrier(20s);
      gate.open();
      trainer.synchronize();
      EXPECT_EQ(far_from(2, *found), 0);
    });
  }
}

}  // namespace
}  // namespace kolo::test

// What holds only where NCCL reduces.
#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <tuple>

#include "multirank/device/device_world.h"
#include "multirank/device/gate.h"
#include "multirank/device/trainer.h"
#include "support/scoped_variable.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

// While it lives, no event of the first device has passed, as far as anybody can see.
class FirstDeviceUnseen {
 public:
  FirstDeviceUnseen() { unseen_ = true; }
  ~FirstDeviceUnseen() { unseen_ = false; }
  FirstDeviceUnseen(const FirstDeviceUnseen&) = delete;
  FirstDeviceUnseen& operator=(const FirstDeviceUnseen&) = delete;

  static cuda::RuntimeApi over(const cuda::RuntimeApi& real) {
    real_ = real;
    cuda::RuntimeApi api = real;
    api.event_query = [](cuda::EventHandle event) {
      int device = -1;
      real_.get_device(&device);
      return unseen_ && device == 0 ? cuda::kNotReady : real_.event_query(event);
    };
    return api;
  }

 private:
  static inline std::atomic<bool> unseen_ = false;
  static inline cuda::RuntimeApi real_;
};

TEST(DeviceNccl, IsTakenWhereAllRanksHaveIt) {
  DeviceWorld world({one_host(2)});
  world.run([&](Context& context) { Trainer(world, context).step(1); });
  EXPECT_EQ(world.nccl().calls("init"), 2);
}

TEST(DeviceNccl, SumsByTheAlgorithmOfNcclAlgo) {
  using enum SimulatedAlgorithm;
  for (const auto& [wanted, taken, other] :
       {std::tuple("allreduce:ring", ring, tree), std::tuple("allreduce:tree", tree, ring)}) {
    const ScopedVariable variable("NCCL_ALGO", wanted);
    DeviceWorld world({.hosts = one_host(2), .config = quick()});
    world.run([&](Context& context) { Trainer(world, context).step(1); });
    EXPECT_GT(world.nccl().launched(taken), 0);
    EXPECT_EQ(world.nccl().launched(other), 0);
  }
}

TEST(DeviceNccl, FinishWaitsForHostsAndNotForDevices) {
  DeviceWorld world({one_host(2)});
  Gate gate(world.device());
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    auto first = trainer.step(1);
    trainer.synchronize();
    EXPECT_EQ(far_from(1, *first), 0);
    gate.put_into(trainer.model.user());
    auto second = trainer.step(2);
    auto third = trainer.step(4);
    EXPECT_EQ(far_from(0, *third), 0) << "not yet";
    context.communicator().barrier(20s);
    gate.open();
    trainer.synchronize();
    EXPECT_EQ(far_from(2, *second), 0);
    EXPECT_EQ(far_from(4, *third), 0);
  });
}

// The other one is in NCCL by then, for the memory of a bucket, and holds its lock.
TEST(DeviceNccl, ARankThatCannotMakeABucketKeepsNobodyWaiting) {
  auto config = quick();
  config.bucket_bytes = 4096;
  DeviceWorld world({.hosts = one_host(2), .seed = 1, .config = config});
  world.run([&](Context& context) {
    Trainer trainer(world, context, {100, 3000, 7, 2000, 900});
    context.communicator().barrier(20s);
    if (context.rank() == 0) world.device().fail("event_create", 2);
    context.communicator().barrier(20s);
    try {
      trainer.step(1);
      ADD_FAILURE() << "rank " << context.rank() << " was not told";
    } catch (const BackendError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("cudaEventCreate"));
    }
  });
}

// NCCL says so only some time after the call; then every rank has an error, on its host, and no device waits.
TEST(DeviceNccl, AnErrorOfNcclEndsTheGroup) {
  auto config = quick();
  config.timeout = 5s;
  DeviceWorld world({.hosts = one_host(2), .seed = 1, .config = config});
  std::barrier<> told(2);  // nobody leaves before, which the other one might hear first
  world.run([&](Context& context) {
    Attendance attendance(told);
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    attendance.meet();  // not a barrier of the group that is about to end
    if (context.rank() == 1) world.nccl().break_rank(1, nccl::Result::remote_error, "the link is down");
    step_until_error(trainer, "the link is down");
    attendance.meet();
  });
}

// Rank 1 leaves in order, and rank 0 finds afterwards that what they both took part in has failed: calls say that from
// then on, rather than that somebody has left. (Where rank 1 is slow to leave it is an error like others.)
TEST(DeviceNccl, WhatFailsAfterARankHasLeftIsAnError) {
  auto config = quick();
  config.coordinator = CoordinatorMode::never;
  DeviceWorld world({.hosts = one_host(2), .seed = 1, .config = config}, FirstDeviceUnseen::over);
  std::string told;
  Gate gate(world.device());
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    if (context.rank() == 0) gate.put_into(trainer.model.backward());
    trainer.step(2);
    if (context.rank() == 1) return;
    FirstDeviceUnseen unseen;
    gate.open();
    std::this_thread::sleep_for(300ms);
    context.engine().progress();  // hears that rank 1 has left
    world.nccl().break_rank(0, nccl::Result::remote_error, "the link is down");
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (told.find("the link is down") == std::string::npos && std::chrono::steady_clock::now() < end) {
      try {
        const std::vector<float> one{1.0F};
        context.engine().submit(allreduce("after", one, nullptr)).wait_for(20ms);
      } catch (const Error& error) {
        told = error.what();
      }
    }
  });
  EXPECT_THAT(told, testing::HasSubstr("the link is down"));
}

}  // namespace
}  // namespace kolo::test

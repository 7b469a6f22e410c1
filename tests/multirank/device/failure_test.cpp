// What the device path does when ranks differ, fail, or have a device that fails; and that no host waits for a device.
#include <gmock/gmock.h>

#include <atomic>

#include "multirank/device/device_world.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

struct Trainer {
  Trainer(DeviceWorld& world, Context& context, std::vector<std::int64_t> counts = {100, 3000, 7})
      : model(world, context.rank(), std::move(counts), false),
        reducer(context.engine().make_reducer(model.table(), model.options())),
        world_(world) {}
  ~Trainer() { synchronize(); }

  void backward(float value) {
    for (std::size_t index = 0; index < model.table().size(); ++index) {
      model.make(index, value);
      reducer->contribute(index, model.data(index), model.backward());
    }
  }
  std::shared_ptr<std::vector<float>> step(float value) {
    backward(value);
    reducer->finish(model.user());
    return model.use(reducer->gradient(1));
  }
  void synchronize() { world_.runtime()->api().stream_synchronize(model.user().handle); }

  DeviceModel model;
  std::unique_ptr<GradientReducer> reducer;

 private:
  DeviceWorld& world_;
};

TEST(DeviceFailures, FinishWaitsForHostsAndNotForDevices) {
  DeviceWorld world({one_host(2)});
  std::atomic<bool> open = false;
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    auto first = trainer.step(1);
    trainer.synchronize();
    EXPECT_EQ(far_from(1, *first), 0);
    Operation gate;  // nothing behind it runs
    gate.what = "gate";
    gate.ready = [&] { return open.load(); };
    world.device().enqueue(trainer.model.user().handle, std::move(gate));
    auto second = trainer.step(2);
    auto third = trainer.step(4);
    EXPECT_EQ(far_from(0, *third), 0) << "not yet";
    context.communicator().barrier(20s);
    open = true;
    world.device().changed();
    trainer.synchronize();
    EXPECT_EQ(far_from(2, *second), 0);
    EXPECT_EQ(far_from(4, *third), 0);
  });
}

TEST(DeviceFailures, AFrozenRoundSendsNoControlMessage) {
  DeviceWorld world({one_host(2)});
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    context.communicator().barrier(20s);
    const auto before = context.counters();
    for (int step = 0; step < 5; ++step) trainer.step(1);
    const auto after = context.counters();
    EXPECT_EQ(after.at("control_messages"), before.at("control_messages"));
    EXPECT_EQ(after.at("plan_hits"), before.at("plan_hits") + 5);
    EXPECT_EQ(after.at("bytes_copied"), before.at("bytes_copied")) << "by the host";
  });
}

TEST(DeviceFailures, ATableThatChangesIsNegotiatedAgain) {
  DeviceWorld world({one_host(3)});
  world.run([&](Context& context) {
    DeviceModel wider(world, context.rank(), {100, 3000, 7, 50}, false);
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.step(2);
    trainer.synchronize();
    trainer.reducer->change_table(wider.table());
    for (int step = 0; step < 3; ++step) {
      for (std::size_t index = 0; index < 4; ++index) {
        wider.make(index, static_cast<float>(context.rank() + step));
        trainer.reducer->contribute(index, wider.data(index), wider.backward());
      }
      trainer.reducer->finish(wider.user());
      auto found = wider.use(trainer.reducer->gradient(3));
      world.runtime()->api().stream_synchronize(wider.user().handle);
      EXPECT_EQ(far_from(1.0F + static_cast<float>(step), *found), 0);
    }
  });
}

// The round that fails is given up on all ranks, also where its first buckets are being reduced; the next one works.
TEST(DeviceFailures, AnExceptionOnOneRankReachesTheOthersAndTheNextRoundWorks) {
  DeviceWorld world({one_host(3)});
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    if (context.rank() == 1) {
      const auto fail = [&] {
        trainer.model.make(0, 7);
        trainer.reducer->contribute(0, trainer.model.data(0), trainer.model.backward());
        throw std::runtime_error("a bad batch");
      };
      EXPECT_THROW(context.run(fail), std::runtime_error);
    } else {
      try {
        trainer.step(3);
        ADD_FAILURE() << "rank " << context.rank() << " was not told";
      } catch (const PeerFailedError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("a bad batch"));
      }
    }
    auto found = trainer.step(5);
    trainer.synchronize();
    EXPECT_EQ(far_from(5, *found), 0);
  });
}

TEST(DeviceFailures, GradientsOnTheHostOfOneRankAndOnTheDeviceOfAnotherAreAMismatch) {
  DeviceWorld world({one_host(2)});
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {10}, false);
    auto table = model.table();
    if (context.rank() == 1) table[0].on_device = false;
    try {
      context.engine().make_reducer(table, model.options());
      ADD_FAILURE() << "no error";
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("on a device"));
    }
  });
}

TEST(DeviceFailures, AStreamOfTheHostIsNoStreamOfTheDevice) {
  DeviceWorld world({one_host(1)});
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    EXPECT_THROW(trainer.reducer->contribute(0, trainer.model.data(0)), UsageError);
    EXPECT_THROW(trainer.reducer->contribute(0, trainer.model.data(0), Stream{nullptr, 5}), UsageError);
    trainer.step(1);
  });
}

TEST(DeviceFailures, ADeviceThatIsNotThereIsAnErrorOnAllRanks) {
  DeviceWorld world({one_host(2)});
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {10}, false);
    auto options = model.options();
    if (context.rank() == 1) options.device = 9;
    try {
      context.engine().make_reducer(model.table(), options);
      ADD_FAILURE() << "no error on rank " << context.rank();
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 1"));
      EXPECT_THAT(error.what(), testing::HasSubstr("no device 9"));
    }
  });
}

// Its last step is complete on every rank, also where the device comes to it only after the news.
TEST(DeviceFailures, ARankThatLeavesTakesNothingWithIt) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    DeviceWorld world({one_host(2), seed});
    world.run([&](Context& context) {
      Trainer trainer(world, context);
      trainer.step(1);
      auto last = trainer.step(3);
      if (context.rank() == 1) return;
      const auto end = std::chrono::steady_clock::now() + 10s;
      bool told = false;
      while (!told && std::chrono::steady_clock::now() < end) {
        try {
          const std::vector<float> one{1.0F};
          context.engine().submit(allreduce("after", one, nullptr)).wait_for(20ms);
        } catch (const PeerLostError&) {
          told = true;
        } catch (const Error&) {  // not yet
        }
      }
      EXPECT_TRUE(told);
      EXPECT_EQ(world.nccl().aborted_communicators(), 0);  // what is on its way goes on
      trainer.synchronize();
      EXPECT_EQ(far_from(3, *last), 0) << "seed " << seed;
    });
  }
}

// NCCL says so only some time after the call; then every rank has an error, on its host, and no device waits.
TEST(DeviceFailures, AnErrorOfNcclEndsTheGroup) {
  auto config = quick();
  config.timeout = 5s;
  DeviceWorld world({.hosts = one_host(2), .seed = 1, .config = config});
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    context.communicator().barrier(20s);
    if (context.rank() == 1) world.nccl().break_rank(1, nccl::Result::remote_error, "the link is down");
    bool failed = false;
    for (int step = 0; step < 1000 && !failed; ++step) {
      try {
        trainer.step(1);
      } catch (const Error& error) {
        failed = true;
        EXPECT_THAT(error.what(), testing::HasSubstr("the link is down"));
      }
    }
    EXPECT_TRUE(failed);
  });
}

}  // namespace
}  // namespace kolo::test

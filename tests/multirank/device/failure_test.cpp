// What the device path does when ranks differ, fail or leave, whoever reduces.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "multirank/device/gate.h"
#include "multirank/device/trainer.h"
#include "multirank/device/training.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

class DeviceFailures : public testing::TestWithParam<DeviceReduction> {
 protected:
  static DeviceWorld::Options ranks(int count, std::uint64_t seed = 1) {
    DeviceWorld::Options options{.hosts = one_host(count), .seed = seed};
    options.config.device_reduction = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Reductions, DeviceFailures, testing::ValuesIn(device_reductions()));

TEST_P(DeviceFailures, AFrozenRoundSendsNoControlMessage) {
  DeviceWorld world(ranks(2));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    context.communicator().barrier(20s);
    const auto before = context.counters();
    for (int step = 0; step < 5; ++step) trainer.step(1);
    const auto after = context.counters();
    context.communicator().barrier(20s);  // nobody leaves before, of which the others tell each other
    EXPECT_EQ(after.at("control_messages"), before.at("control_messages"));
    EXPECT_EQ(after.at("plan_hits"), before.at("plan_hits") + 5);
    EXPECT_EQ(after.at("bytes_copied"), before.at("bytes_copied")) << "by the host";
  });
}

TEST_P(DeviceFailures, ATableThatChangesIsNegotiatedAgain) {
  DeviceWorld world(ranks(3));
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
TEST_P(DeviceFailures, AnExceptionOnOneRankReachesTheOthersAndTheNextRoundWorks) {
  DeviceWorld world(ranks(3));
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

// The exception takes the reducer and the gradients away. Buckets that had left are not read any more.
TEST_P(DeviceFailures, AnExceptionThatTakesTheGradientsAwayReachesTheOthers) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 3U : 20U); ++seed) {
    auto options = ranks(2, seed);
    options.config.bucket_bytes = 4096;
    DeviceWorld world(options);
    world.run([&](Context& context) {
      const auto train_and_fail = [&] {
        Trainer trainer(world, context, {100, 3000, 7, 2000, 900});
        trainer.step(1);
        if (context.rank() == 0) {
          EXPECT_THROW(trainer.step(2), PeerFailedError);
        } else {
          trainer.backward(2);
        }
        throw std::runtime_error("a bad batch");
      };
      EXPECT_THROW(context.run(train_and_fail), std::runtime_error);
    });
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// The engine ends a round in which the program has not been: it may still be reading the last results, and its stream
// is waited for before their memory goes.
TEST_P(DeviceFailures, ResultsMayBeReadBesideARoundThatFails) {
  DeviceWorld world(ranks(2));
  world.run([&](Context& context) {
    Gate gate(world.device());
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    const auto last = trainer.reducer->gradient(1);
    const auto fail = [&] {
      if (context.rank() == 1) throw std::runtime_error("a bad batch");
      const std::vector<float> one{1.0F};
      context.engine().submit(allreduce("metric", one, nullptr)).wait();
    };
    EXPECT_THROW(context.run(fail), std::runtime_error);
    gate.put_into(trainer.model.user());
    const auto found = trainer.model.use(last);
    trainer.backward(3);
    for (int i = 0; i < 100; ++i) context.engine().progress();
    gate.open();
    trainer.reducer->finish(trainer.model.user());
    trainer.synchronize();
    EXPECT_EQ(far_from(1, *found), 0);
  });
}

// What was contributed may be used again in finish()'s stream, also where finish() has thrown: a bucket that had left
// is being packed from there.
TEST_P(DeviceFailures, MemoryOfARoundThatHasFailedIsUsedAgainInTheUsersStream) {
  auto options = ranks(2);
  options.config.bucket_bytes = 4096;
  DeviceWorld world(options);
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {100, 3000, 7}, true);
    auto reducer = context.engine().make_reducer(model.table(), model.options());
    const auto backward = [&](std::size_t count) {
      model.begin_backward();
      for (std::size_t index = 0; index < count; ++index) {
        model.make(index, 1);
        reducer->contribute(index, model.data(index), model.backward());
      }
    };
    backward(3);
    reducer->finish(model.user());
    world.runtime()->api().stream_synchronize(model.user().handle);
    context.communicator().barrier(20s);
    if (context.rank() == 0) world.device().set_polls_order(false);
    context.communicator().barrier(20s);
    const auto train = [&] {
      backward(context.rank() == 1 ? 2 : 3);
      if (context.rank() == 1) throw std::runtime_error("a bad batch");
      reducer->finish(model.user());
    };
    EXPECT_THROW(context.run(train), std::runtime_error);
    if (context.rank() == 0) {
      world.device().enqueue(model.user().handle,
                             {.what = "whoever has the memory next",
                              .ranges = {{const_cast<void*>(model.data(1)), 3000 * sizeof(float), Access::write}}});
    }
    for (const Stream stream : {model.backward(), model.user()}) {
      world.runtime()->api().stream_synchronize(stream.handle);
    }
  });
}

// The reducer goes with the exception, and with it the memory of results that the program's stream is still to read.
TEST_P(DeviceFailures, ResultsMayBeReadWhenAnExceptionHasTakenTheReducerAway) {
  DeviceWorld world(ranks(2));
  world.run([&](Context& context) {
    Gate gate(world.device());
    DeviceModel model(world, context.rank(), {100, 3000, 7}, false);
    std::shared_ptr<std::vector<float>> found;
    const auto train = [&] {
      auto reducer = context.engine().make_reducer(model.table(), model.options());
      for (std::size_t index = 0; index < 3; ++index) {
        model.make(index, 2);
        reducer->contribute(index, model.data(index), model.backward());
      }
      reducer->finish(model.user());
      world.runtime()->api().stream_synchronize(model.user().handle);
      gate.put_into(model.user());
      found = model.use(reducer->gradient(1));
      throw std::runtime_error("a bad batch");
    };
    EXPECT_THROW(context.run(train), std::runtime_error);
    for (int i = 0; i < 200; ++i) context.engine().progress();
    gate.open();
    world.runtime()->api().stream_synchronize(model.user().handle);
    EXPECT_EQ(far_from(2, *found), 0);
  });
}

// The round has not quite begun on the rank whose device refuses: the others are told all the same.
TEST_P(DeviceFailures, ADeviceThatRefusesWhenARoundBeginsIsAFailureOfThatRound) {
  DeviceWorld world(ranks(2));
  std::atomic<bool> refused = false;
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    context.communicator().barrier(20s);
    if (context.rank() == 0) {
      const auto train = [&] {
        world.device().fail("event_record", 999);
        try {
          trainer.step(2);
        } catch (const BackendError&) {
          refused = true;
          throw;
        }
      };
      EXPECT_THROW(context.run(train), BackendError);
    } else {
      while (!refused) std::this_thread::yield();
      EXPECT_THROW(context.run([&] { trainer.step(2); }), PeerFailedError);
    }
    auto found = trainer.step(3);
    trainer.synchronize();
    EXPECT_EQ(far_from(3, *found), 0);
  });
}

TEST_P(DeviceFailures, ARankThatLeavesInsteadOfARoundIsLost) {
  DeviceWorld world(ranks(3));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    if (context.rank() == 1) return;
    try {
      trainer.step(2);
      ADD_FAILURE() << "rank " << context.rank() << " went on";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.rank(), 1);
    }
  });
}

TEST_P(DeviceFailures, GradientsOnTheHostOfOneRankAndOnTheDeviceOfAnotherAreAMismatch) {
  DeviceWorld world(ranks(2));
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

TEST_P(DeviceFailures, AStreamThatIsBeingCapturedIsRefusedAndTheRoundGoesOn) {
  DeviceWorld world(ranks(2));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    trainer.step(1);
    trainer.synchronize();
    const auto refused = [&](const std::function<void()>& call) {
      world.device().set_capturing(trainer.model.user().handle, true);
      try {
        call();
        ADD_FAILURE() << "a graph was made of a round";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("CUDA graph"));
      }
      world.device().set_capturing(trainer.model.user().handle, false);
    };
    refused([&] { trainer.reducer->contribute(0, trainer.model.data(0), trainer.model.backward()); });
    trainer.backward(3);
    refused([&] { trainer.reducer->finish(trainer.model.user()); });
    trainer.reducer->finish(trainer.model.user());
    const auto found = trainer.model.use(trainer.reducer->gradient(1));
    trainer.synchronize();
    EXPECT_EQ(far_from(3, *found), 0);
  });
}

TEST_P(DeviceFailures, AStreamOfTheHostIsNoStreamOfTheDevice) {
  DeviceWorld world(ranks(1));
  world.run([&](Context& context) {
    Trainer trainer(world, context);
    EXPECT_THROW(trainer.reducer->contribute(0, trainer.model.data(0)), UsageError);
    EXPECT_THROW(trainer.reducer->contribute(0, trainer.model.data(0), Stream{nullptr, 5}), UsageError);
    trainer.step(1);
  });
}

TEST_P(DeviceFailures, ADeviceThatIsNotThereIsAnErrorOnAllRanks) {
  DeviceWorld world(ranks(2));
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
TEST_P(DeviceFailures, ARankThatLeavesTakesNothingWithIt) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    DeviceWorld world(ranks(2, seed));
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

}  // namespace
}  // namespace kolo::test

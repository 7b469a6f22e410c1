// Two optimizers that one backward pass feeds, on devices.
#include <gmock/gmock.h>

#include <random>
#include <tuple>

#include "multirank/device/trainer.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

struct World {
  const char* name;
  DeviceWorld::Options options;
};
std::vector<World> worlds() {
  auto by_hosts = DeviceWorld::Options{.hosts = one_host(2), .config = quick()};
  by_hosts.config.device_reduction = DeviceReduction::host;
  std::vector<World> all{{"hosts", by_hosts}};
  if (device_reductions().size() == 1) return all;
  all.push_back({"nccl", {.hosts = one_host(3), .config = quick()}});
  all.push_back({"hierarchical", in_two_steps(TwoSteps::nccl, {0, 0, 1})});
  all.push_back({"staged", in_two_steps(TwoSteps::staged, {0, 1, 1})});
  return all;
}

class TwoReducers : public testing::TestWithParam<World> {
 protected:
  [[nodiscard]] static DeviceWorld::Options options(std::uint64_t seed) {
    constexpr CoordinatorMode kModes[] = {CoordinatorMode::automatic, CoordinatorMode::always, CoordinatorMode::never};
    auto options = GetParam().options;
    options.seed = seed;
    options.config.bucket_bytes = 16 * 1024;
    options.config.last_bucket_bytes = 1024;
    options.config.coordinator = kModes[seed % 3];
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, TwoReducers, testing::ValuesIn(worlds()),
                         [](const auto& one) { return std::string(one.param.name); });

// Rank 0 hands over a bucket of the second reducer before the first is finished; the last rank, which has a gradient
// less, when it finishes the second.
TEST_P(TwoReducers, AGradientThatIsMissingKeepsNobodyWaiting) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2U : 6U); ++seed) {
    DeviceWorld world(options(seed));
    world.run([&](Context& context) {
      Trainer first(world, context, {100, 3000, 7, 20000}), second(world, context, {5000, 64, 3000, 1});
      for (int round = 0; round < 4; ++round) {
        const bool without = round > 1 && context.rank() == context.size() - 1;
        first.backward(1);
        for (std::size_t index = without ? 1 : 0; index < 4; ++index) {
          second.model.make(index, 1);
          second.reducer->contribute(index, second.model.data(index), second.model.backward());
        }
        Trainer* in_order[] = {&first, &second};
        if (seed % 2 == 0) std::swap(in_order[0], in_order[1]);
        for (Trainer* trainer : in_order) trainer->reducer->finish(trainer->model.user());
        const auto found = second.model.use(second.reducer->gradient(0));
        second.synchronize();
        const auto ranks = static_cast<float>(context.size());
        EXPECT_EQ(far_from(round > 1 ? (ranks - 1) / ranks : 1, *found), 0) << "round " << round << " seed " << seed;
      }
    });
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// The first reducer's plan is made anew, on all ranks or because one of them has another table, while buckets of the
// second are under way: memory is had from all ranks together, which must not come between those in another order.
TEST_P(TwoReducers, APlanIsMadeBetweenTheBucketsOfAnother) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 3U : 12U); ++seed) {
    DeviceWorld world(options(seed));
    world.run([&](Context& context) {
      Trainer first(world, context, {100, 3000, 7, 20000}), second(world, context, {5000, 64, 9000, 3000});
      for (int round = 0; round < 6; ++round) {
        const bool changes = seed % 2 == 0 || context.rank() == round % context.size();
        if (round % 2 == 1 && changes) first.reducer->change_table(first.model.table());
        first.backward(1);
        if ((static_cast<unsigned>(context.rank() + round) + seed) % 3 == 0) std::this_thread::sleep_for(1ms);
        second.backward(2);
        for (Trainer* trainer : {&first, &second}) trainer->reducer->finish(trainer->model.user());
        const auto ones = first.model.use(first.reducer->gradient(3));
        const auto twos = second.model.use(second.reducer->gradient(2));
        first.synchronize();
        second.synchronize();
        EXPECT_EQ(far_from(1, *ones) + far_from(2, *twos), 0) << "round " << round << " seed " << seed;
      }
    });
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Each in a thread of its own, whose plans are made anew at the same time or one after the other.
TEST_P(TwoReducers, ThreadsMakePlansBesideEachOther) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2U : 8U); ++seed) {
    DeviceWorld world(options(seed));
    world.run([&](Context& context) {
      Trainer first(world, context, {100, 3000, 7, 20000}), second(world, context, {5000, 64, 9000, 3000});
      const auto train = [&](Trainer& trainer, float value, int late) {
        world.runtime()->api().set_device(context.rank());
        for (int round = 0; round < 6; ++round) {
          if (round % 2 == 1) trainer.reducer->change_table(trainer.model.table());
          if ((context.rank() + round) % 3 == late) std::this_thread::sleep_for(1ms);
          const auto found = trainer.step(value);
          trainer.synchronize();
          EXPECT_EQ(far_from(value, *found), 0) << "round " << round << " seed " << seed;
        }
      };
      std::thread beside(train, std::ref(second), 2.0F, static_cast<int>(seed % 3));
      train(first, 1, 0);
      beside.join();
    });
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Rounds that fail on some rank, before the first reducer is finished or between the two, and ranks that are late.
TEST_P(TwoReducers, RoundsThatFailAreFollowedByGoodOnes) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2U : 6U); ++seed) {
    DeviceWorld world(options(seed));
    world.run([&](Context& context) {
      Trainer first(world, context, {100, 3000, 7, 20000}), second(world, context, {5000, 64, 0, 1});
      std::minstd_rand same(static_cast<unsigned>(seed));  // what all ranks draw alike
      for (int round = 0; round < 10; ++round) {
        const bool fails = same() % 4 == 0, early = same() % 2 == 0;
        const bool here = static_cast<int>(same() % static_cast<unsigned>(context.size())) == context.rank();
        if ((static_cast<unsigned>(context.rank()) + seed) % 3 == 0) std::this_thread::sleep_for(1ms);
        const auto step = [&] {
          first.backward(1);
          second.backward(2);
          if (fails && here && early) throw std::runtime_error("bad");
          first.reducer->finish(first.model.user());
          if (fails && here) throw std::runtime_error("bad");
          second.reducer->finish(second.model.user());
          const auto found = second.model.use(second.reducer->gradient(0));
          second.synchronize();
          EXPECT_EQ(far_from(2, *found), 0) << "round " << round;
        };
        if (!fails) {
          context.run(step);
        } else if (here) {
          EXPECT_THROW(context.run(step), std::runtime_error);
        } else {
          EXPECT_THROW(context.run(step), PeerFailedError) << "rank " << context.rank() << " round " << round;
        }
        first.synchronize();
        second.synchronize();
      }
    });
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kolo::test

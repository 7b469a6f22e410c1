// A rank that is alone: gradients are handed out where they were contributed, behind the streams that they came in.
#include <gtest/gtest.h>

#include <atomic>

#include "multirank/device/mutant.h"
#include "multirank/device/training.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

DeviceWorld::Options alone(std::uint64_t seed) { return {.hosts = one_host(1), .seed = seed, .config = quick()}; }

ReducerOptions staying(const DeviceModel& model) {
  ReducerOptions options = model.options();
  options.contributions_stay = true;
  return options;
}

TEST(SoloRounds, AreRightInAnyOrderThatTheWaitsAllow) {
  for (const bool side_stream : {false, true}) {
    for (const unsigned missing : {0U, 3U}) {
      check_orders({one_host(1), side_stream, missing, true}, {.hosts = one_host(1), .config = small_buckets()},
                   kSanitized ? 3 : 24);
    }
  }
}

// Three steps, whose results are where the gradients are unless they are to be `scaled`.
void train_alone(DeviceWorld& world, Context& context, double scaled) {
  const std::vector<std::int64_t> counts{100, 3000, 7};
  DeviceModel model(world, context.rank(), counts, false);
  auto options = staying(model);
  options.prescale = scaled;
  options.postscale = 1 / scaled;
  auto reducer = context.engine().make_reducer(model.table(), options);
  for (int step = 0; step < 3; ++step) {
    model.begin_backward();
    for (std::size_t index = 0; index < counts.size(); ++index) {
      model.make(index, static_cast<float>(step));
      reducer->contribute(index, model.data(index), model.backward());
    }
    reducer->finish(model.user());
    for (std::size_t index = 0; index < counts.size(); ++index) {
      EXPECT_EQ(reducer->gradient(index).data() == model.data(index), scaled == 1);
      const auto found = model.use(reducer->gradient(index));
      ASSERT_EQ(world.runtime()->api().stream_synchronize(model.user().handle), cuda::kSuccess);
      EXPECT_EQ(far_from(static_cast<float>(step), *found), 0) << "tensor " << index << " step " << step;
    }
  }
}

TEST(SoloRounds, RunNothingOnTheDevice) {
  for (const double scaled : {1.0, 0.5}) {
    DeviceWorld world(alone(1));
    int before = 0;
    world.run([&](Context& context) {
      before = world.device().launches("kolo_pack");
      train_alone(world, context, scaled);
    });
    EXPECT_EQ(world.device().launches("kolo_pack") > before, scaled != 1);
  }
}

TEST(SoloRounds, AWaitForWhereGradientsComeFromIsNeeded) {
  for (const bool left_out : {false, true}) {
    Mutant mutant;
    DeviceWorld world(alone(3), [&](const cuda::RuntimeApi& real) { return mutant.over(real); });
    world.run([&](Context& context) {
      DeviceModel model(world, context.rank(), {100, 3000, 7}, true);
      mutant.set_role(model.backward().handle, Role::backward);
      mutant.set_role(model.user().handle, Role::user);
      world.device().set_polls_order(false);
      if (left_out) mutant.leave_out({Role::user, Role::backward});
      auto reducer = context.engine().make_reducer(model.table(), staying(model));
      for (int step = 0; step < 3; ++step) {
        model.begin_backward();
        for (std::size_t index = 0; index < 3; ++index) {
          model.make(index, 1);
          reducer->contribute(index, model.data(index), model.backward());
        }
        reducer->finish(model.user());
        for (std::size_t index = 0; index < 3; ++index) model.use(reducer->gradient(index));
      }
      for (const Stream stream : {model.backward(), model.user()}) {
        EXPECT_EQ(world.runtime()->api().stream_synchronize(stream.handle), cuda::kSuccess);
      }
    });
    EXPECT_EQ(mutant.left_out() > 0, left_out);
    const auto violations = world.device().take_violations();
    const auto is_race = [](const Violation& each) { return each.fault == Fault::race; };
    EXPECT_EQ(std::ranges::any_of(violations, is_race), left_out);
  }
}

// The device refuses a wait: the round is over all the same, and the next one works.
TEST(SoloRounds, AnErrorWhereResultsAreHandedOutEndsTheRound) {
  static decltype(cuda::RuntimeApi::stream_wait_event) real_wait;
  static std::atomic<bool> refuses;
  DeviceWorld world(alone(1), [](const cuda::RuntimeApi& real) {
    real_wait = real.stream_wait_event;
    cuda::RuntimeApi api = real;
    api.stream_wait_event = [](cuda::StreamHandle stream, cuda::EventHandle event, unsigned flags) {
      return refuses ? cuda::Status{999} : real_wait(stream, event, flags);
    };
    return api;
  });
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {100}, true);
    auto reducer = context.engine().make_reducer(model.table(), staying(model));
    for (int step = 0; step < 4; ++step) {
      model.begin_backward();
      model.make(0, 1);
      reducer->contribute(0, model.data(0), model.backward());
      refuses = step % 2 == 1;
      if (refuses) {
        EXPECT_THROW(reducer->finish(model.user()), BackendError);
        refuses = false;
        ASSERT_EQ(world.runtime()->api().stream_synchronize(model.backward().handle), cuda::kSuccess);
      } else {
        reducer->finish(model.user());
        model.use(reducer->gradient(0));
      }
      EXPECT_EQ(reducer->round(), static_cast<std::uint64_t>(step) + 1);
    }
    EXPECT_EQ(world.runtime()->api().stream_synchronize(model.user().handle), cuda::kSuccess);
  });
}

}  // namespace
}  // namespace kolo::test

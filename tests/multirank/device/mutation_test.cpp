// Every wait that the device path makes is needed: without it the simulated device finds a race, whatever the order in
// which things run.
#include <gmock/gmock.h>

#include <optional>
#include <tuple>

#include "multirank/device/device_world.h"
#include "multirank/device/mutant.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

void step(DeviceModel& model, GradientReducer& reducer, bool contributes) {
  model.begin_backward();
  for (std::size_t index = 0; index < 3 && contributes; ++index) {
    model.make(index, 1);
    reducer.contribute(index, model.data(index), model.backward());
  }
  reducer.finish(model.user());
  for (std::size_t index = 0; index < 3; ++index) model.use(reducer.gradient(index));
}

void synchronize(DeviceWorld& world, const DeviceModel& model) {
  for (const Stream stream : {model.backward(), model.user()}) {
    world.runtime()->api().stream_synchronize(stream.handle);
  }
}

// Three steps on two ranks without `wait`; in the second one rank 1 has no gradient, and so nothing of its own to wait
// for. What a host happens to see orders nothing in them, as that would hide what is missing; a step before, in which
// memory is made and cleared, is whole.
void train(DeviceWorld& world, Mutant& mutant, Context& context, std::optional<Wait> wait) {
  DeviceModel model(world, context.rank(), {100, 3000, 7}, true);
  mutant.set_role(model.backward().handle, Role::backward);
  mutant.set_role(model.user().handle, Role::user);
  auto reducer = context.engine().make_reducer(model.table(), model.options());
  step(model, *reducer, true);
  synchronize(world, model);
  context.communicator().barrier(std::chrono::seconds(20));
  if (context.rank() == 0) {
    world.device().set_polls_order(false);
    if (wait) mutant.leave_out(*wait);
  }
  context.communicator().barrier(std::chrono::seconds(20));
  for (int number = 0; number < 3; ++number) step(model, *reducer, number != 1 || context.rank() != 1);
  synchronize(world, model);
}

struct Found {
  std::vector<Violation> violations;
  int left_out = 0;
};

Found found_without(std::optional<Wait> wait, DeviceReduction reduction, std::uint64_t seed) {
  Mutant mutant;
  auto config = quick();
  config.bucket_bytes = 4096;
  config.device_reduction = reduction;
  DeviceWorld world({.hosts = one_host(2), .seed = seed, .config = config},
                    [&](const cuda::RuntimeApi& real) { return mutant.over(real); });
  world.run([&](Context& context) { train(world, mutant, context, wait); });
  return {world.device().take_violations(), mutant.left_out()};
}

class Mutation : public testing::TestWithParam<std::tuple<DeviceReduction, Wait>> {};
INSTANTIATE_TEST_SUITE_P(Waits, Mutation,
                         testing::Combine(testing::ValuesIn(device_reductions()),
                                          testing::Values(Wait{Role::lane, Role::backward},
                                                          Wait{Role::lane, Role::user}, Wait{Role::user, Role::lane},
                                                          Wait{Role::backward, Role::user})),
                         [](const auto& one) { return std::to_string(one.index); });

TEST_P(Mutation, IsFoundWhateverTheOrder) {
  const auto& [reduction, wait] = GetParam();
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 3U : 20U); ++seed) {
    const Found found = found_without(wait, reduction, seed);
    EXPECT_GT(found.left_out, 0);
    EXPECT_THAT(found.violations, testing::Contains(testing::Field(&Violation::fault, Fault::race)))
        << name_of(wait.later) << " does not wait for " << name_of(wait.earlier) << ", seed " << seed;
  }
}

class NoMutation : public testing::TestWithParam<DeviceReduction> {};
INSTANTIATE_TEST_SUITE_P(Reductions, NoMutation, testing::ValuesIn(device_reductions()));

TEST_P(NoMutation, WithAllWaitsNothingIsFound) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 3U : 20U); ++seed) {
    const Found found = found_without(std::nullopt, GetParam(), seed);
    EXPECT_TRUE(found.violations.empty()) << "seed " << seed << ": " << found.violations.front().text;
    EXPECT_EQ(found.left_out, 0);
  }
}

}  // namespace
}  // namespace kolo::test

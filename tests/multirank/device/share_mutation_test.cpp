// Every wait on the way of a share is needed: without it the simulated device finds a race, whatever the order in which
// things run.
#include <gmock/gmock.h>

#include <optional>
#include <tuple>

#include "multirank/device/mutant.h"
#include "multirank/device/share_table.h"
#include "multirank/device/trainer.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

struct Mutated {
  Mutant mutant;
  ShareTable copies;
  std::optional<Wait> wait;
};

// As in mutation_test.cpp: a whole step, then some without `wait`, in which what a host happens to see orders nothing.
void train(DeviceWorld& world, Mutated& mutated, Context& context) {
  Trainer trainer(world, context, {100, 3000, 7});
  mutated.mutant.set_role(trainer.model.user().handle, Role::user);
  trainer.step(1);
  trainer.synchronize();
  context.communicator().barrier(20s);
  if (context.rank() == 0) {
    for (auto* const stream : mutated.copies.out_streams()) mutated.mutant.set_role(stream, Role::copies_out);
    for (auto* const stream : mutated.copies.in_streams()) mutated.mutant.set_role(stream, Role::copies_in);
    world.device().set_polls_order(false);
    if (mutated.wait) mutated.mutant.leave_out(*mutated.wait);
  }
  context.communicator().barrier(20s);
  for (int round = 0; round < 3; ++round) trainer.step(1);
}

struct Found {
  std::vector<Violation> violations;
  int left_out = 0;
};

Found found_without(std::optional<Wait> wait, TwoSteps way, std::uint64_t seed) {
  Mutated mutated;
  mutated.wait = wait;
  auto config = quick();
  config.bucket_bytes = 4096;
  auto options = in_two_steps(way, {0, 0, 1, 1}, config);
  options.seed = seed;
  DeviceWorld world(options,
                    [&](const cuda::RuntimeApi& real) { return mutated.mutant.over(mutated.copies.over(real)); });
  world.run([&](Context& context) { train(world, mutated, context); });
  return {world.device().take_violations(), mutated.mutant.left_out()};
}

constexpr std::uint64_t kSeeds = kSanitized ? 2 : 10;

class ShareMutation : public testing::TestWithParam<std::tuple<TwoSteps, Wait>> {};
INSTANTIATE_TEST_SUITE_P(Waits, ShareMutation,
                         testing::Combine(testing::ValuesIn(kTwoSteps),
                                          testing::Values(Wait{Role::lane, Role::user}, Wait{Role::user, Role::lane})),
                         [](const auto& one) { return std::to_string(one.index); });
INSTANTIATE_TEST_SUITE_P(WaitsOfCopies, ShareMutation,
                         testing::Combine(testing::Values(TwoSteps::staged),
                                          testing::Values(Wait{Role::copies_out, Role::lane},
                                                          Wait{Role::copies_in, Role::copies_out},
                                                          Wait{Role::lane, Role::copies_in})),
                         [](const auto& one) { return std::to_string(one.index); });

TEST_P(ShareMutation, IsFoundWhateverTheOrder) {
  const auto& [way, wait] = GetParam();
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Found found = found_without(wait, way, seed);
    EXPECT_GT(found.left_out, 0);
    EXPECT_THAT(found.violations, testing::Contains(testing::Field(&Violation::fault, Fault::race)))
        << name_of(wait.later) << " does not wait for " << name_of(wait.earlier) << ", seed " << seed;
  }
}

class NoShareMutation : public testing::TestWithParam<TwoSteps> {};
INSTANTIATE_TEST_SUITE_P(Ways, NoShareMutation, testing::ValuesIn(kTwoSteps));

TEST_P(NoShareMutation, WithAllWaitsNothingIsFound) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Found found = found_without(std::nullopt, GetParam(), seed);
    EXPECT_TRUE(found.violations.empty()) << "seed " << seed << ": " << found.violations.front().text;
    EXPECT_EQ(found.left_out, 0);
  }
}

}  // namespace
}  // namespace kolo::test

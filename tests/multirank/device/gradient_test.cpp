// Rounds of gradients on simulated devices, reduced by NCCL and by the hosts.
#include <gtest/gtest.h>

#include <tuple>

#include "multirank/device/training.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

constexpr CoordinatorMode kModes[] = {CoordinatorMode::automatic, CoordinatorMode::always, CoordinatorMode::never};

struct Case {
  Hosts hosts;
  bool side_stream = false;
  unsigned missing = 0;
};
class DeviceRounds : public testing::TestWithParam<std::tuple<DeviceReduction, Case>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, DeviceRounds,
                         testing::Combine(testing::ValuesIn(device_reductions()),
                                          testing::Values(Case{one_host(1)}, Case{one_host(2)},
                                                          Case{one_host(2), true, 3}, Case{one_host(4), false, 1},
                                                          Case{{0, 0, 1}, true}, Case{{0, 1}, true, 2})));

TEST_P(DeviceRounds, AverageInAnyOrderThatTheWaitsAllow) {
  const auto& [reduction, world] = GetParam();
  const std::uint64_t seeds = kSanitized ? 6 : 48;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    auto config = small_buckets(kModes[seed % 3]);
    config.device_reduction = reduction;
    check_training({.hosts = world.hosts, .seed = seed, .config = config},
                   {.seed = seed, .side_stream = world.side_stream, .missing = world.missing});
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// By the hosts, it is bit for bit what gradients of the host become.
TEST(StagedRounds, AreWhatTheHostMakes) {
  auto config = small_buckets();
  config.device_reduction = DeviceReduction::host;
  DeviceWorld world({.hosts = one_host(3), .config = config});
  world.run([&](Context& context) {
    const std::vector<std::int64_t> counts{777, 20000, 3};
    DeviceModel model(world, context.rank(), counts, true);
    auto options = model.options();
    options.prescale = 0.3;
    options.postscale = 1.7;
    auto on_device = context.engine().make_reducer(model.table(), options);
    auto table = model.table();
    for (auto& row : table) row.on_device = false;
    auto on_host = context.engine().make_reducer(table, options);
    for (int step = 0; step < 3; ++step) {
      model.begin_backward();
      std::vector<std::vector<float>> gradients;
      for (std::size_t index = 0; index < counts.size(); ++index) {
        const float value = 0.1F * static_cast<float>(context.rank() + 7 * step) + 0.01F * static_cast<float>(index);
        gradients.emplace_back(static_cast<std::size_t>(counts[index]), value);
        model.make(index, value);
        on_device->contribute(index, model.data(index), model.backward());
        on_host->contribute(index, gradients.back().data());
      }
      on_device->finish(model.user());
      on_host->finish();
      for (std::size_t index = 0; index < counts.size(); ++index) {
        const auto found = model.use(on_device->gradient(index));
        ASSERT_EQ(world.runtime()->api().stream_synchronize(model.user().handle), cuda::kSuccess);
        const auto wanted = on_host->gradient(index);
        EXPECT_EQ(std::memcmp(found->data(), wanted.data(), wanted.size()), 0)
            << "tensor " << index << " step " << step;
      }
    }
  });
}

}  // namespace
}  // namespace kolo::test

// Rounds of gradients on simulated devices, reduced by NCCL and by the hosts.
#include <gtest/gtest.h>

#include <tuple>

#include "multirank/device/training.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

using Case = TrainingWorld;
class DeviceRounds : public testing::TestWithParam<std::tuple<DeviceReduction, Case>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, DeviceRounds,
                         testing::Combine(testing::ValuesIn(device_reductions()),
                                          testing::Values(Case{one_host(1)}, Case{one_host(2)},
                                                          Case{one_host(2), true, 3}, Case{one_host(4), false, 1},
                                                          Case{{0, 0, 1}, true}, Case{{0, 1}, true, 2})));

TEST_P(DeviceRounds, AverageInAnyOrderThatTheWaitsAllow) {
  const auto& [reduction, world] = GetParam();
  DeviceWorld::Options options{.hosts = world.hosts, .config = small_buckets()};
  options.config.device_reduction = reduction;
  check_orders(world, options, kSanitized ? 6 : 48);
}

// As ranks of one host that see all of its devices, in threads that never chose one.
TEST_P(DeviceRounds, LeaveOtherDevicesAlone) {
  const auto& [reduction, world] = GetParam();
  DeviceWorld::Options options{.hosts = world.hosts, .config = small_buckets(), .free_devices = 1};
  options.config.device_reduction = reduction;
  check_orders(world, options, 3);
}

// By the hosts, it is bit for bit what gradients of the host become.
TEST(StagedRounds, AreWhatTheHostMakes) {
  auto config = small_buckets();
  config.device_reduction = DeviceReduction::host;
  DeviceWorld world({.hosts = one_host(3), .config = config});
  expect_bits_of_the_host(world, 0.3, 1.7);
}

}  // namespace
}  // namespace kolo::test

// Rounds of gradients on simulated devices.
#include <gtest/gtest.h>

#include "multirank/device/training.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

struct Case {
  Hosts hosts;
  bool side_stream = false;
  unsigned missing = 0;
};
class DeviceRounds : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Worlds, DeviceRounds,
                         testing::Values(Case{one_host(1)}, Case{one_host(2)}, Case{one_host(2), true, 3},
                                         Case{one_host(4), false, 1}, Case{{0, 0, 1}, true}));

TEST_P(DeviceRounds, AverageInAnyOrderThatTheWaitsAllow) {
  const auto [hosts, side_stream, missing] = GetParam();
  const std::uint64_t seeds = kSanitized ? 5 : 50;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    check_training({hosts, seed, small_buckets()}, {.seed = seed, .side_stream = side_stream, .missing = missing});
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kolo::test

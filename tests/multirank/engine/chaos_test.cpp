#include "multirank/engine/random_program.h"
#include "support/sanitizers.h"

namespace kolo::test {
namespace {

constexpr std::uint32_t kSeeds = fewer_sanitized(300U, 60U);

// script/soak interleavings goes on from here.
TEST(RandomPrograms, EveryStepHasSameOutcomeOnAllRanks) {
  for (std::uint32_t seed = 0; seed < kSeeds && !testing::Test::HasFailure(); ++seed) run_seed(seed);
}

}  // namespace
}  // namespace kolo::test

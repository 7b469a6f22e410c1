#include "multirank/engine/random_program.h"

namespace kolo::test {
namespace {

// script/soak interleavings goes on from here.
TEST(Chaos, EveryStepEndsAlikeOnAllRanks) {
  for (std::uint32_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) run_seed(seed);
}

}  // namespace
}  // namespace kolo::test

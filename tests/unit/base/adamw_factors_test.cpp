#include "base/adamw_factors.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kolo::base {
namespace {

// Computed in Python by the same order of multiplications.
TEST(Power, HasTheBitsOfRepeatedSquaring) {
  EXPECT_EQ(power(0.9, 7), 0x1.e9c6a99d1cdc0p-2);
  EXPECT_EQ(power(0.95, 20), 0x1.6f16ef0348c9cp-2);
  EXPECT_EQ(power(0.999, 1000), 0x1.788526411edacp-2);
  EXPECT_EQ(power(0.999, 123456), 0x1.be31a29477a64p-179);
}

TEST(Power, OfSmallExponentsIsExact) {
  EXPECT_EQ(power(0.9, 0), 1);
  EXPECT_EQ(power(0.9, 1), 0.9);
  EXPECT_EQ(power(0.5, 10), 0x1p-10);
  EXPECT_EQ(power(0, 3), 0);
}

TEST(Power, IsNearTheExactOneForManySteps) {
  for (const double base : {0.9, 0.999, 0.9999}) {
    for (const std::int64_t steps : {100, 10'000, 1'000'000}) {
      const double exact = std::pow(base, static_cast<double>(steps));
      EXPECT_NEAR(power(base, steps), exact, exact * static_cast<double>(steps) * 0x1p-52) << base << ' ' << steps;
    }
  }
}

}  // namespace
}  // namespace kolo::base

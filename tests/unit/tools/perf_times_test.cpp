#include "perf_times.h"

#include <gtest/gtest.h>

#include <numeric>

namespace kolo::tools {
namespace {

// 1, 2, ... n
std::vector<double> up_to(std::size_t count) {
  std::vector<double> times(count);
  std::iota(times.begin(), times.end(), 1.0);
  return times;
}

TEST(Percentile, IsTheNearestRank) {
  EXPECT_EQ(percentile(up_to(1), 50), 1);
  EXPECT_EQ(percentile(up_to(1), 99), 1);
  EXPECT_EQ(percentile(up_to(2), 50), 1);
  EXPECT_EQ(percentile(up_to(3), 50), 2);
  EXPECT_EQ(percentile(up_to(20), 99), 20);
  EXPECT_EQ(percentile(up_to(100), 99), 99);
  EXPECT_EQ(percentile(up_to(101), 99), 100);
  EXPECT_EQ(percentile(up_to(1000), 99), 990);
  EXPECT_EQ(percentile(up_to(1000), 100), 1000);
}

}  // namespace
}  // namespace kolo::tools

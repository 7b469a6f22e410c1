#include "scaling_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kolo::tools {
namespace {

using testing::ElementsAre;

TEST(Quantile, InterpolatesBetweenValues) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({10, 20, 30, 40, 50}, 0.25), 20);
  EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.95), 19.5);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.95), 7);
}

TEST(BlocksOf, LastBlockTakesTheRest) {
  std::vector<double> values(2 * kBlockSteps + 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const auto blocks = blocks_of(values);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].size(), kBlockSteps);
  EXPECT_EQ(blocks[1].size(), kBlockSteps + 3);
  EXPECT_EQ(blocks[1].back(), values.back());
  EXPECT_TRUE(blocks_of(std::vector<double>(kBlockSteps - 1)).empty());
}

std::vector<Block> noisy_blocks(double mean, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 1);
  std::vector<Block> blocks(count);
  for (Block& block : blocks) {
    const double busy = noise(random);  // a whole block shares it
    for (std::size_t i = 0; i < kBlockSteps; ++i) block.push_back(mean + busy + 0.1 * noise(random));
  }
  return blocks;
}

// The interval is to hold the true median about 95 times of 100; of a bootstrap over 12 blocks somewhat fewer.
TEST(MedianInterval, HoldsTheTrueMedianOfNoisyBlocks) {
  int held = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Interval interval = median_interval(noisy_blocks(100, 12, seed));
    EXPECT_LE(interval.low, interval.value);
    EXPECT_GE(interval.high, interval.value);
    held += interval.low <= 100 && interval.high >= 100 ? 1 : 0;
  }
  EXPECT_GE(held, 82);
  EXPECT_LT(held, 100);
}

TEST(MedianInterval, IsUnknownForTwoBlocks) { EXPECT_TRUE(std::isinf(median_interval(noisy_blocks(100, 2, 1)).high)); }

TEST(MedianInterval, SameDataHaveTheSameInterval) {
  const auto blocks = noisy_blocks(100, 9, 3);
  EXPECT_EQ(median_interval(blocks).low, median_interval(blocks).low);
  EXPECT_EQ(median_interval(blocks).high, median_interval(blocks).high);
}

TEST(RatioInterval, SeparatesTenPercentFromNoise) {
  const Interval ratio = ratio_interval(noisy_blocks(110, 12, 5), noisy_blocks(100, 12, 6));
  EXPECT_NEAR(ratio.value, 1.1, 0.02);
  EXPECT_GT(ratio.low, 1);
  const Interval same = ratio_interval(noisy_blocks(100, 12, 7), noisy_blocks(100, 12, 8));
  EXPECT_LT(same.low, 1);
  EXPECT_GT(same.high, 1);
}

}  // namespace
}  // namespace kolo::tools

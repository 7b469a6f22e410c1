#include "gpu_idle.h"

#include <gtest/gtest.h>

namespace kolo::bench {
namespace {

constexpr int kSteps = 2;

TEST(GpuIdle, GapsOfOneKindAreOne) {
  const auto gaps = gaps_between({{0, 1000, "a"}, {3000, 4000, "b"}, {5000, 6000, "a"}, {9000, 9500, "b"}}, kSteps);
  ASSERT_EQ(gaps.size(), 2U);
  EXPECT_EQ(gaps[0].after, "a");
  EXPECT_EQ(gaps[0].before, "b");
  EXPECT_DOUBLE_EQ(gaps[0].number, 1);
  EXPECT_DOUBLE_EQ(gaps[0].us, 2.5);
  EXPECT_EQ(gaps[1].after, "b");
  EXPECT_DOUBLE_EQ(gaps[1].us, 0.5);
}

// Two streams: nothing is idle while one of them is at work.
TEST(GpuIdle, WhatRunsMeanwhileCounts) {
  const auto gaps =
      gaps_between({{0, 1000, "long"}, {100, 200, "short"}, {900, 1500, "other"}, {1600, 1700, "last"}}, 1);
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].after, "other");
  EXPECT_EQ(gaps[0].before, "last");
  EXPECT_DOUBLE_EQ(gaps[0].us, 0.1);
}

TEST(GpuIdle, NothingIsNoGap) {
  EXPECT_TRUE(gaps_between({}, kSteps).empty());
  EXPECT_TRUE(gaps_between({{5, 10, "alone"}}, kSteps).empty());
}

TEST(GpuIdle, TheLongestAreListedAndAllAreCounted) {
  std::vector<Span> spans;
  for (int i = 0; i < 10; ++i) {
    const std::int64_t begin = 1000 * i * i;
    spans.push_back({begin, begin + 10, "kernel_" + std::to_string(i)});
  }
  const std::string text = json_of(gaps_between(spans, 1));
  EXPECT_TRUE(text.starts_with(R"({"us":80.91,"number":9.0,"longest":[{"after":"kernel_8","before":"kernel_9")"))
      << text;
  EXPECT_EQ(text.find("kernel_2"), std::string::npos) << text;
}

}  // namespace
}  // namespace kolo::bench

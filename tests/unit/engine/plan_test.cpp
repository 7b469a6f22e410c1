#include "engine/plan.h"

#include <gmock/gmock.h>

#include <set>

#include "engine/message_check.h"

namespace kolo::engine {
namespace {

std::vector<GradientInfo> table(const std::vector<std::int64_t>& counts, DType dtype = DType::f32) {
  std::vector<GradientInfo> rows;
  for (std::size_t i = 0; i < counts.size(); ++i) rows.push_back({"p" + std::to_string(i), {counts[i]}, {1}, dtype});
  return rows;
}

std::vector<std::uint32_t> flat_order(const Plan& plan) {
  std::vector<std::uint32_t> order;
  for (const auto& bucket : plan.buckets) {
    for (const auto& tensor : bucket.tensors) order.push_back(tensor.index);
  }
  return order;
}

TEST(Plan, HoldsEveryTensorOnceInTheObservedOrder) {
  const auto plan = build_plan(table({10, 20, 30, 40}), {2, 0, 3, 1}, {1 << 20, 64});
  EXPECT_THAT(flat_order(plan), testing::ElementsAre(2, 0, 3, 1));
}

TEST(Plan, PutsUnobservedTensorsLastInReverse) {
  const auto plan = build_plan(table({1, 1, 1, 1}), {1}, {1 << 20, 1 << 20});
  EXPECT_THAT(flat_order(plan), testing::ElementsAre(1, 3, 2, 0));
}

TEST(Plan, CapsAreWhatWasAskedForOrSuitTheWay) {
  constexpr std::size_t kMiB = 1 << 20;
  EXPECT_EQ(caps_of({}, 0, false).bucket_bytes, 16 * kMiB);
  EXPECT_EQ(caps_of({}, 0, true).bucket_bytes, 8 * kMiB);
  Config config;
  config.bucket_bytes = 4 * kMiB;
  EXPECT_EQ(caps_of(config, 0, true).bucket_bytes, 4 * kMiB);
  EXPECT_EQ(caps_of(config, 2 * kMiB, true).bucket_bytes, 2 * kMiB);
  EXPECT_EQ(caps_of(config, 2 * kMiB, false).last_bucket_bytes, config.last_bucket_bytes);
  EXPECT_EQ(caps_of(config, 1024, false).last_bucket_bytes, 1024U);
}

TEST(Plan, RefusesAnOrderThatNoRankCanHaveObserved) {
  const PlanCaps caps{1 << 20, 1 << 20};
  EXPECT_THROW((void)build_plan(table({1, 1}), {2}, caps), DamagedMessage);
  EXPECT_THROW((void)build_plan(table({1, 1}), {1, 1}, caps), DamagedMessage);
  EXPECT_THROW((void)build_plan({}, {0}, caps), DamagedMessage);
}

TEST(Plan, KeepsBucketsWithinTheCapAndTheLastOneShort) {
  const std::vector<std::int64_t> counts(100, 256);  // 1 KiB each
  const auto plan = build_plan(table(counts), {}, {10 * 1024, 2 * 1024});
  for (const auto& bucket : plan.buckets) EXPECT_LE(bucket.bytes, 10U * 1024);
  EXPECT_EQ(plan.buckets.back().bytes, 2U * 1024);
}

TEST(Plan, ATensorLargerThanTheCapHasABucketOfItsOwn) {
  const auto plan = build_plan(table({1 << 20, 16, 16}), {0, 1, 2}, {4096, 64});
  EXPECT_THAT(plan.buckets.front().tensors, testing::SizeIs(1));
}

TEST(Plan, AlignsEveryTensorAndMixesNoTypes) {
  auto rows = table({3, 5, 7});
  rows[1].dtype = DType::f64;
  const auto plan = build_plan(rows, {}, {1 << 20, 64});
  for (const auto& bucket : plan.buckets) {
    for (const auto& tensor : bucket.tensors) {
      EXPECT_EQ(tensor.offset % 64, 0U);
      EXPECT_EQ(rows[tensor.index].dtype, bucket.dtype);
      EXPECT_EQ(tensor.bytes, rows[tensor.index].bytes());
    }
  }
}

TEST(Plan, IsThatOfItsOrder) {
  const auto rows = table({10, 20, 30});
  const PlanCaps caps{1 << 20, 64};
  EXPECT_EQ(build_plan(rows, {0, 1, 2}, caps).buckets, build_plan(rows, {0, 1, 2}, caps).buckets);
  EXPECT_NE(build_plan(rows, {0, 1, 2}, caps).buckets, build_plan(rows, {1, 0, 2}, caps).buckets);
}

TEST(Plan, EmptyTable) { EXPECT_TRUE(build_plan({}, {}, {1024, 64}).buckets.empty()); }

}  // namespace
}  // namespace kolo::engine

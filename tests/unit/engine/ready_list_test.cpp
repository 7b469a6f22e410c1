#include "engine/ready_list.h"

#include <gmock/gmock.h>

namespace kolo::engine {
namespace {

Entry allreduce(const std::string& name, std::int64_t count, DType dtype = DType::f32) {
  Entry entry;
  entry.name = name;
  entry.signature.sizes = {count};
  entry.signature.dtype = dtype;
  return entry;
}

TEST(ReadyList, FusesNeighboursUpToTheCap) {
  const auto items = make_ready_list({allreduce("a", 4), allreduce("b", 4), allreduce("c", 4)}, 32, 2, 7);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_THAT(items[0].names, testing::ElementsAre("a", "b"));
  EXPECT_THAT(items[1].names, testing::ElementsAre("c"));
  EXPECT_EQ(items[0].sequence, 7U);
  EXPECT_EQ(items[1].sequence, 8U);
}

TEST(ReadyList, NeverFusesAcrossTypesScalesOrConflicts) {
  auto scaled = allreduce("c", 1);
  scaled.signature.prescale = 2;
  auto conflicting = allreduce("e", 1);
  conflicting.conflict = Conflict{};
  const auto items = make_ready_list(
      {allreduce("a", 1), allreduce("b", 1, DType::f64), scaled, allreduce("d", 1), conflicting, allreduce("f", 1)},
      1024, 2, 0);
  EXPECT_EQ(items.size(), 6U);
}

TEST(ReadyList, NeverFusesARefusal) {
  auto refused = allreduce("b", 1);
  refused.failed_ranks = {1};
  refused.failure = "text";
  const auto items = make_ready_list({allreduce("a", 1), refused, allreduce("c", 1)}, 1024, 2, 0);
  ASSERT_EQ(items.size(), 3U);
  EXPECT_THAT(items[1].failed_ranks, testing::ElementsAre(1));
  EXPECT_EQ(items[1].failure, "text");
}

TEST(ReadyList, SpreadsUnevenContributionsByRank) {
  Entry gather;
  gather.name = "g";
  gather.signature.kind = Kind::allgather;
  gather.ranks = {2, 0, 1};
  gather.bytes = {20, 0, 10};
  const auto items = make_ready_list({gather}, 1024, 3, 0);
  EXPECT_THAT(items.at(0).bytes, testing::ElementsAre(0, 10, 20));
}

}  // namespace
}  // namespace kolo::engine

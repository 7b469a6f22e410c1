#include "engine/matcher.h"

#include <gmock/gmock.h>

#include <numeric>

#include "unit/engine/entries.h"

namespace kolo::engine {
namespace {

using testing::ElementsAre;

TEST(Tree, EveryRankHasOneParentAndTheDepthIsLogarithmic) {
  for (int size = 1; size <= 40; ++size) {
    std::vector<int> parents(static_cast<std::size_t>(size), 0);
    for (int rank = 0; rank < size; ++rank) {
      for (const Rank child : Tree{rank, size}.children()) {
        EXPECT_EQ((Tree{child, size}.parent()), rank);
        ++parents[static_cast<std::size_t>(child)];
      }
    }
    EXPECT_EQ(parents[0], 0);
    EXPECT_EQ(std::accumulate(parents.begin(), parents.end(), 0), size - 1);
  }
  EXPECT_THAT((Tree{0, 6}.subtree(1)), ElementsAre(1, 3, 4));
}

TEST(Matcher, IsReadyOnlyWhenThisRankAndBothSubtreesHaveSubmitted) {
  Matcher matcher(Tree{0, 3});
  matcher.add_from_child(1, entry("a", 1));
  EXPECT_THAT(matcher.take_ready(), testing::IsEmpty());
  matcher.add_own(entry("a", 0));
  EXPECT_THAT(matcher.missing("a"), ElementsAre(2));
  EXPECT_THAT(matcher.take_ready(), testing::IsEmpty());
  matcher.add_from_child(2, entry("a", 2));
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_FALSE(ready[0].conflict);
  EXPECT_TRUE(matcher.empty());
}

TEST(Matcher, ReportsTheFirstDisagreementWithBothRanks) {
  Matcher matcher(Tree{0, 3});
  matcher.add_own(entry("a", 0, 4));
  matcher.add_from_child(1, entry("a", 1, 4));
  matcher.add_from_child(2, entry("a", 2, 5));
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  ASSERT_TRUE(ready[0].conflict);
  EXPECT_EQ(ready[0].conflict->second_rank, 2);
}

TEST(Matcher, MergedRefusalHasTheTextOfItsFirstRank) {
  Matcher matcher(Tree{0, 3});
  matcher.add_own(entry("a", 0));
  for (const Rank child : {1, 2}) {
    auto refused = entry("a", child);
    refused.failed_ranks = {child};
    refused.failure = "reason of rank " + std::to_string(child);
    matcher.add_from_child(child, refused);
  }
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_THAT(ready[0].failed_ranks, ElementsAre(1, 2));
  EXPECT_EQ(ready[0].failure, "reason of rank 1");
}

TEST(Matcher, KeepsTheOrderInWhichThisRankSubmitted) {
  Matcher matcher(Tree{0, 2});
  for (const auto* name : {"b", "a", "c"}) matcher.add_own(entry(name, 0));
  for (const auto* name : {"c", "a", "b"}) matcher.add_from_child(1, entry(name, 1));
  std::vector<std::string> names;
  for (const auto& ready : matcher.take_ready()) names.push_back(ready.name);
  EXPECT_THAT(names, ElementsAre("b", "a", "c"));
}

TEST(Matcher, ForgetsNamedOperationsButNotGradientRounds) {
  Matcher matcher(Tree{0, 2});
  auto round = entry("gradients/0", 1);
  round.signature.kind = Kind::gradient_round;
  matcher.add_from_child(1, round);
  matcher.add_from_child(1, entry("metric", 1));
  matcher.forget_named();
  round.rank = 0;
  matcher.add_own(round);
  matcher.add_own(entry("metric", 0));
  const auto ready = matcher.take_ready();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].name, "gradients/0");
}

TEST(Matcher, NamesExactlyWhoIsMissingWhereAChildHasSaid) {
  Matcher matcher(Tree{0, 7});               // children 1 (with 3, 4) and 2 (with 5, 6)
  matcher.note_missing(2, "a", {6}, false);  // nobody here waits for it: not kept
  EXPECT_TRUE(matcher.empty());
  matcher.add_own(entry("a", 0));
  EXPECT_THAT(matcher.missing("a"), ElementsAre(1, 2, 3, 4, 5, 6));
  matcher.note_missing(2, "a", {6}, false);
  EXPECT_THAT(matcher.missing("a"), ElementsAre(1, 3, 4, 6));
  matcher.add_from_child(1, entry("a", 1));
  EXPECT_THAT(matcher.missing("a"), ElementsAre(6));
}

TEST(Matcher, AForgottenNameBeginsAnew) {
  Matcher matcher(Tree{0, 2});
  matcher.add_own(entry("a", 0));
  matcher.add_from_child(1, entry("a", 1));
  matcher.forget("a");  // complete, and not taken
  matcher.add_own(entry("a", 0));
  EXPECT_THAT(matcher.take_ready(), testing::IsEmpty());
  EXPECT_THAT(matcher.missing("a"), ElementsAre(1));
}

}  // namespace
}  // namespace kolo::engine

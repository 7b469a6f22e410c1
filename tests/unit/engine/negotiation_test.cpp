#include "engine/negotiation.h"

#include <gmock/gmock.h>

#include "engine/message_check.h"
#include "support/sanitizers.h"
#include "unit/engine/interleaving.h"
#include "unit/engine/negotiation_world.h"

namespace kolo::engine {
namespace {

using testing::ElementsAre;

TEST(Negotiation, AnOperationCostsOneMessageUpAndOneDownEachLink) {
  World world(7);
  for (int rank = 0; rank < 7; ++rank) world[rank].submit("a");
  world.settle();
  std::size_t sent = 0;
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_THAT(world[rank].history_, ElementsAre("run 0: a"));
    sent += world[rank].sent_;
  }
  EXPECT_EQ(sent, 12U);
}

TEST(Negotiation, AWithdrawalNamesTheMissingOnEveryRankAndFreesTheName) {
  World world(7);
  for (const int rank : {0, 1, 2, 3, 5}) world[rank].submit("a");  // 4 is below 1, 6 below 2
  world.settle();
  for (const int rank : {1, 2}) world[rank].negotiation_.report("a");
  world.settle();
  EXPECT_THAT(world[0].negotiation_.missing("a"), ElementsAre(4, 6));
  world[3].cancel("a");
  world.settle();
  for (int rank = 0; rank < 7; ++rank) {
    EXPECT_THAT(world[rank].history_, ElementsAre("withdrawn a")) << rank;
    EXPECT_THAT(world[rank].last_missing_, ElementsAre(4, 6)) << rank;
    EXPECT_TRUE(world[rank].pending_.empty());
  }
  for (int rank = 0; rank < 7; ++rank) world[rank].submit("a");
  world.settle();
  for (int rank = 0; rank < 7; ++rank) EXPECT_EQ(world[rank].history_.back(), "run 0: a");
}

TEST(Negotiation, ACancelThatCrossesWithTheListIsNotAnswered) {
  World world(3);
  for (int rank = 0; rank < 3; ++rank) world[rank].submit("a");
  for (const int rank : {1, 2}) {
    world.relay(rank);
    world.deliver(rank, 0);
  }
  world.relay(0);  // listed: the list is on its way
  world[1].cancel("a");
  world.deliver(0, 1);
  world[1].submit("a");  // again, before the root sees the cancel
  world.settle();
  for (const int rank : {0, 2}) world[rank].submit("a");
  world.settle();
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(world[rank].history_, ElementsAre("run 0: a", "run 1: a"));
}

TEST(Negotiation, TheSecondCancelOfOneSubmissionDoesNotConcernTheNext) {
  World world(4);  // 3 is below 1, which does not submit
  for (const int rank : {0, 2, 3}) world[rank].submit("a");
  world.relay(3);
  world.deliver(3, 1);
  world[3].cancel("a");
  world.deliver(3, 1);  // held back by 1, and on its way to the root
  world[0].cancel("a");
  world[0].submit("a");
  world.settle();
  for (int rank = 1; rank < 4; ++rank) world[rank].submit("a");
  world.settle();
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(world[rank].history_, ElementsAre("withdrawn a", "run 0: a"));
}

TEST(Negotiation, AnEntrySentBeforeAWithdrawalIsDropped) {
  World world(3);
  world[1].submit("a");
  world[1].cancel("a");  // held back: nothing has been relayed
  world.deliver(1, 0);   // the withdrawal is on its way to 2 ...
  world[2].submit("a");
  world.relay(2);  // ... and crosses with its entry
  world.settle();
  EXPECT_TRUE(world[2].pending_.empty());
  for (const int rank : {0, 1}) world[rank].submit("a");
  world.settle();
  EXPECT_THAT(world[0].history_, ElementsAre("withdrawn a"));  // 2 has not submitted it since
  world[2].submit("a");
  world.settle();
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(world[rank].history_, ElementsAre("withdrawn a", "run 0: a"));
}

// The claim that all have heard is checked by the world (negotiation_world.h), here and in every interleaving below.
TEST(Negotiation, AllRanksLearnThatAllHaveHeardOfAFailure) {
  World world(6);
  world[4].negotiation_.fail({FatalKind::failed, {4}, "by 4", 0, {}});
  world.settle();
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_THAT(world[rank].history_, testing::ElementsAre("failed by 4", "heard 1")) << rank;
  }
}

TEST(Negotiation, OfTwoFailuresAtOnceTheSecondIsHeardByAll) {
  World world(3);
  for (const Rank rank : {1, 2}) {
    world[rank].negotiation_.fail({FatalKind::failed, {rank}, "by " + std::to_string(rank), 0, {}});
  }
  world.settle();
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_THAT(world[rank].history_, testing::Contains("heard 2")) << rank;
  }
}

TEST(Negotiation, AListWithAGapOrARepetitionIsRefused) {
  World world(3);
  for (int rank = 0; rank < 3; ++rank) world[rank].submit("a");
  world.settle();
  for (const std::uint64_t sequence : {0, 2}) {  // 1 is next
    Envelope list;
    list.items.resize(1);
    list.items[0].names = {"b"};
    list.items[0].sequence = sequence;
    EXPECT_THROW(world[1].negotiation_.receive(0, list), DamagedMessage);
  }
  EXPECT_THAT(world[1].history_, ElementsAre("run 0: a"));
}

constexpr std::uint32_t kSeeds = kolo::test::fewer_sanitized(10000U, 1000U);

TEST(Negotiation, AgreesAndLosesNothingInAnyInterleaving) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) ASSERT_NO_FATAL_FAILURE(check_interleaving(seed));
}

}  // namespace
}  // namespace kolo::engine

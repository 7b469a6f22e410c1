#include "cluster/membership.h"

#include <gmock/gmock.h>

#include <random>

#include "support/sanitizers.h"
#include "unit/cluster/membership_world.h"

namespace kolo::cluster {
namespace {

using testing::ElementsAre;

std::vector<int> one_host_each(int ranks) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank);
  return hosts;
}

void expect_survivors(World& world, const std::vector<Rank>& expected) {
  for (const Rank rank : expected) {
    EXPECT_EQ(world[rank].membership_.fate(), Fate::agreed) << "rank " << rank;
    EXPECT_EQ(world[rank].membership_.agreement().members, expected) << "rank " << rank;
  }
}

TEST(Membership, NobodyLostIsEverybody) {
  World world(one_host_each(3));
  world.settle();
  EXPECT_EQ(world[1].membership_.fate(), Fate::whole);
  EXPECT_THAT(world[1].membership_.agreement().members, ElementsAre(0, 1, 2));
}

TEST(Membership, EveryRankHearsOfADeathAnywhereAndAgrees) {
  for (Rank victim = 0; victim < 7; ++victim) {
    SCOPED_TRACE(victim);
    World world(one_host_each(7));
    world.kill(victim);
    world.settle();
    std::vector<Rank> left;
    for (Rank rank = 0; rank < 7; ++rank) {
      if (rank != victim) left.push_back(rank);
    }
    expect_survivors(world, left);
    for (const Rank rank : left) EXPECT_THAT(world[rank].lost_, ElementsAre(victim));
  }
}

TEST(Membership, DeathsOneAfterTheOtherRankZeroToo) {
  World world(one_host_each(5));
  world.kill(0);
  world.settle();
  expect_survivors(world, {1, 2, 3, 4});
  world.kill(1);
  world.settle();
  expect_survivors(world, {2, 3, 4});
  world.kill(3);
  world.kill(4);
  world.settle();
  expect_survivors(world, {2});  // two of three are known to be dead: they cannot go on elsewhere
}

TEST(Membership, OneOfTwoGoesOnOnlyIfTheOtherIsKnownToBeDead) {
  World dead({0, 1});
  dead.kill(0);
  dead.settle();
  expect_survivors(dead, {1});
  World unknown({0, 1});
  unknown.cut({0, 1});
  unknown.settle();
  EXPECT_EQ(unknown[1].membership_.fate(), Fate::cut_off);
  expect_survivors(unknown, {0});
}

TEST(Membership, OfTwoHalvesTheOneWithTheLowestRankGoesOn) {
  World world(one_host_each(4));
  world.cut({1, 0, 0, 1});
  world.settle();
  expect_survivors(world, {0, 3});
  for (const Rank rank : {1, 2}) EXPECT_EQ(world[rank].membership_.fate(), Fate::cut_off);
}

TEST(Membership, AMinorityEndsAndAMajorityGoesOn) {
  World world(one_host_each(5));
  world.cut({0, 0, 1, 1, 1});
  world.settle();
  expect_survivors(world, {2, 3, 4});
  for (const Rank rank : {0, 1}) EXPECT_EQ(world[rank].membership_.fate(), Fate::cut_off);
}

TEST(Membership, AStoppedRankOfASharedHostIsEndedBeforeTheOthersGoOn) {
  World world({0, 0, 0, 1});
  world.stop(1);
  world.settle();
  expect_survivors(world, {0, 2, 3});
  EXPECT_TRUE(world[1].dead_);
}

TEST(Membership, AStoppedRankAloneOnItsHostFindsItselfGivenUpWhenItWakes) {
  World world(one_host_each(3));
  world.stop(2);
  world.settle();
  expect_survivors(world, {0, 1});
  world.wake(2);
  world.settle();
  EXPECT_EQ(world[2].membership_.fate(), Fate::excluded);
  EXPECT_THAT(world[2].lost_, ElementsAre(2));
  expect_survivors(world, {0, 1});
}

TEST(Membership, ALeaveIsNoLoss) {
  World world(one_host_each(4));
  world.leave(1);
  world.settle();
  EXPECT_EQ(world[0].membership_.fate(), Fate::whole);
  EXPECT_TRUE(world[2].lost_.empty());
  world.kill(3);
  world.settle();
  expect_survivors(world, {0, 2});
}

TEST(Membership, WhenAllLeaveNobodyIsCalledWhoHasLeftBefore) {
  World world(one_host_each(8));
  for (const Rank rank : {2, 0, 5, 1, 4, 7, 3}) {
    world.leave(rank);
    world.settle();
  }
  EXPECT_TRUE(world[6].lost_.empty());
  EXPECT_EQ(world[6].membership_.fate(), Fate::whole);
}

TEST(Membership, MembersGatherOnceAllHaveCome) {
  World world(one_host_each(4));
  world.kill(0);
  world.settle();
  const auto epoch = world[1].membership_.agreement().epoch;
  for (const Rank rank : {3, 1}) world[rank].membership_.arrive(epoch);
  world.settle();
  EXPECT_FALSE(world[3].membership_.everybody_has_come(epoch));
  world[2].membership_.arrive(epoch);
  world.settle();
  for (const Rank rank : {1, 2, 3}) EXPECT_TRUE(world[rank].membership_.everybody_has_come(epoch)) << rank;
}

TEST(Membership, NonsenseChangesNothing) {
  World world(one_host_each(3));
  auto& membership = world[0].membership_;
  membership.receive(1, News{{{7, Condition::dead}}});
  membership.receive(1, News{{{-1, Condition::dead}}});
  membership.receive(1, Proposal{{1, {0, 9}}, {}});
  membership.receive(1, Proposal{{1, {1, 0}}, {}});
  membership.receive(1, Proposal{{1, {}}, {}});
  membership.receive(1, Vote{5, true, false, 5, {0, {}}, {}});
  membership.receive(9, News{{{2, Condition::dead}}});
  membership.receive(1, Beat{});
  world.settle();
  EXPECT_EQ(membership.fate(), Fate::whole);
}

// One seed's world of 2 to 16 ranks: deaths, stops, wakings, leaves, cuts that heal or not, and suspicions without a
// reason, with everything that waits moving at random in between.
class Chaos {
 public:
  explicit Chaos(std::uint32_t seed) : random_(seed), world_(make_hosts()) {
    kinds_ = 1 + below(31);  // which kinds of harm this world knows
    slow_ = below(2 * world_.size());
  }
  World& run() {
    const int acts = 1 + below(2 + world_.size() / 2);
    for (int i = 0; i < acts; ++i) {
      act();
      for (int moves = below(4) == 0 ? 1000 : below(40); moves > 0; --moves) move();
    }
    if (below(2) == 0) heal();
    while (move()) {
    }
    return world_;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  std::vector<int> make_hosts() {
    std::vector<int> hosts;
    const int ranks = 2 + below(15);
    const int per_host = 1 + below(4);
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / per_host);
    return hosts;
  }
  bool move() {
    const auto ways = world_.deliverable();
    if (ways.empty()) return false;
    const auto way = ways[static_cast<std::size_t>(below(static_cast<int>(ways.size())))];
    if (way.second != slow_ || below(30) == 0) world_.deliver(way);
    return true;
  }
  void act() {
    const Rank rank = below(world_.size());
    auto& peer = world_[rank];
    const int kind = below(5);
    if ((kinds_ >> kind & 1) == 0 || peer.dead_ || peer.left_) return;
    if (kind == 0) {
      world_.kill(rank);
    } else if (kind == 1) {
      if (peer.stopped_) {
        world_.wake(rank);
      } else {
        world_.stop(rank);
      }
    } else if (kind == 2) {
      world_.leave(rank);
    } else if (kind == 3) {
      if (below(3) == 0) {
        heal();
      } else {
        cut();
      }
    } else if (below(3) == 0) {
      end_those_who_go_on();
    } else {
      world_.suspect(below(world_.size()), rank);
    }
  }
  // Their work is done, or the next misfortune comes: either way nobody is left to say that they have gone on.
  void end_those_who_go_on() {
    for (Rank rank = 0; rank < world_.size(); ++rank) {
      const auto& peer = world_[rank];
      if (peer.runs() && peer.membership_.fate() == Fate::agreed) world_.kill(rank);
    }
  }
  // Hosts are cut, not ranks of one host.
  void cut() {
    std::vector<int> of_host(static_cast<std::size_t>(world_.size()));
    for (int& side : of_host) side = below(2);
    std::vector<int> sides;
    for (Rank rank = 0; rank < world_.size(); ++rank) {
      sides.push_back(of_host[static_cast<std::size_t>(world_.host(rank))]);
    }
    world_.cut(sides);
  }
  void heal() { world_.cut(std::vector<int>(static_cast<std::size_t>(world_.size()), 0)); }

  std::mt19937 random_;
  World world_;
  int kinds_ = 0;
  Rank slow_ = 0;  // sees everything late; often nobody
};

// No two groups that could both go on: of any two lists that were ever agreed one is part of the other.
void expect_one_line(const World& world) {
  for (const auto& a : world.agreed_) {
    for (const auto& b : world.agreed_) {
      ASSERT_TRUE(std::ranges::includes(a, b) || std::ranges::includes(b, a))
          << testing::PrintToString(a) << " and " << testing::PrintToString(b);
    }
  }
}

// Everybody that runs knows how it stands, and those that go on are exactly each other's list.
void expect_an_end(World& world) {
  std::optional<std::vector<Rank>> list;
  for (Rank rank = 0; rank < world.size(); ++rank) {
    const auto& peer = world[rank];
    if (!peer.runs()) continue;
    ASSERT_NE(peer.membership_.fate(), Fate::agreeing)
        << "rank " << rank << " waits for " << testing::PrintToString(peer.membership_.awaited()) << world.picture();
    if (peer.membership_.fate() != Fate::agreed) continue;
    const auto& mine = peer.membership_.agreement().members;
    if (!list) list = mine;
    ASSERT_EQ(mine, *list) << "rank " << rank;
  }
  if (!list) return;
  for (const Rank rank : *list) {
    if (world[rank].runs()) {
      ASSERT_EQ(world[rank].membership_.fate(), Fate::agreed) << "rank " << rank;
    }
  }
}

constexpr std::uint32_t kSeeds = kolo::test::fewer_sanitized(20000U, 1000U);

TEST(Membership, AgreesAndEndsInAnyInterleaving) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos chaos(seed);
    auto& world = chaos.run();
    ASSERT_NO_FATAL_FAILURE(expect_one_line(world));
    ASSERT_NO_FATAL_FAILURE(expect_an_end(world));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace kolo::cluster

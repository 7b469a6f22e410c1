// The model against sums done by hand, and what must hold whatever the constants are.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/cost_model.h"

namespace kolo::comm {
namespace {

constexpr Way kOverMessages[] = {Way::ring, Way::tree, Way::halving_doubling, Way::recursive_doubling};

// Round figures: 100 us a message between hosts, 10 inside; 0.01 us a byte between hosts, 0.001 inside.
CostConstants round_constants() {
  CostConstants constants;
  constants.host = {.alpha_us = 10, .beta_us = 0.001};
  constants.network = {.alpha_us = 100, .beta_us = 0.01};
  constants.gamma_us = 0.0001;
  constants.sync_us = 1;
  constants.whole_factor = 2;
  constants.partner_factor = 1.5;
  return constants;
}

Surroundings hosts_of_one(int hosts) { return {.size = hosts, .hosts = hosts, .segment_bytes = 1000}; }

double us(Way way, std::size_t bytes, const Surroundings& at) { return cost_us(way, {bytes}, at, round_constants()); }

TEST(CostModel, Ring) {
  // 4 ranks, 400 bytes: 6 steps of a block of 100 bytes: 6 (100 + 1), and 300 bytes reduced.
  EXPECT_NEAR(us(Way::ring, 400, hosts_of_one(4)), 6 * 101 + 0.03, 1e-9);
  // Blocks of 100,000 bytes: what follows hides the latency. 6 x 1000 us and one message's latency, 300,000 bytes
  // reduced.
  EXPECT_NEAR(us(Way::ring, 400'000, hosts_of_one(4)), 6100 + 30, 1e-9);
}

TEST(CostModel, HalvingDoubling) {
  // 4 ranks, 400 bytes: 4 messages; 200 and 100 bytes each way, at 1.5 beta; 300 bytes reduced.
  EXPECT_NEAR(us(Way::halving_doubling, 400, hosts_of_one(4)), 400 + 600 * 0.015 + 0.03, 1e-9);
  // 5 ranks, 500 bytes: 3 rounds of 2, 1 and 1 blocks; nothing is folded.
  EXPECT_NEAR(us(Way::halving_doubling, 500, hosts_of_one(5)), 600 + 800 * 0.015 + 0.04, 1e-9);
  // 2 ranks: no partner changes.
  EXPECT_NEAR(us(Way::halving_doubling, 400, hosts_of_one(2)), 200 + 400 * 0.01 + 0.02, 1e-9);
}

TEST(CostModel, RecursiveDoubling) {
  EXPECT_NEAR(us(Way::recursive_doubling, 400, hosts_of_one(4)), 2 * (100 + 4) + 0.08, 1e-9);
  // 5 ranks: two rounds more; the two folded messages and one sum more.
  EXPECT_NEAR(us(Way::recursive_doubling, 400, hosts_of_one(5)), 4 * (100 + 4) + 0.12, 1e-9);
  // Longer than a segment, sent whole.
  EXPECT_NEAR(us(Way::recursive_doubling, 2000, hosts_of_one(4)), 2 * (100 + 2 * 20) + 0.4, 1e-9);
  // Two ranks: than three segments.
  EXPECT_NEAR(us(Way::recursive_doubling, 3000, hosts_of_one(2)), 100 + 30 + 0.3, 1e-9);
  EXPECT_NEAR(us(Way::recursive_doubling, 4000, hosts_of_one(2)), 100 + 2 * 40 + 0.4, 1e-9);
}

TEST(CostModel, RecursiveDoublingHalvesAsOftenAsThatIsCheaper) {
  Surroundings at = hosts_of_one(8);
  at.segment_bytes = 1 << 20;
  const auto halvings = [&](std::size_t bytes) { return halvings_of(bytes, at, round_constants()); };
  // 3 alpha + 3 N beta, or 4 alpha + 2 N beta from alpha/beta = 10,000 bytes on, or 5 alpha + 1.75 N beta from four
  // times as many on.
  EXPECT_EQ(halvings(9'000), 0);
  EXPECT_EQ(halvings(11'000), 1);
  EXPECT_EQ(halvings(39'000), 1);
  EXPECT_EQ(halvings(41'000), 2);
  EXPECT_EQ(halvings(1 << 30), 2);
  EXPECT_NEAR(us(Way::recursive_doubling, 20'000, at), 4 * 100 + 2 * 200 + 3, 1e-9);
  EXPECT_NEAR(us(Way::recursive_doubling, 80'000, at), 5 * 100 + 1.75 * 800 + 8, 1e-9);
  EXPECT_EQ(halvings_of(1 << 30, hosts_of_one(3), round_constants()), 0);  // two ranks, and a third that is folded
}

TEST(CostModel, Tree) {
  // 4 ranks, depth 2, one share that is one segment: 4 messages, 6 times the segment.
  Surroundings at = hosts_of_one(4);
  at.segment_bytes = 1 << 20;
  EXPECT_NEAR(us(Way::tree, 400, at), 400 + 6 * 4 + 0.04, 1e-9);
  // 1,600,000 bytes: shares of 800,000, segments of 100,000 (an eighth); inner ranks send everything twice.
  EXPECT_NEAR(us(Way::tree, 1'600'000, at), 400 + 6 * 1000 + 2 * 16'000 * 7.0 / 8 * 1.5 + 160, 1e-6);
}

TEST(CostModel, Direct) {
  const Surroundings host{.size = 4, .shared_memory = true};
  EXPECT_NEAR(us(Way::in_place, 10'000, host), 2 + 1, 1e-9);
  EXPECT_NEAR(us(Way::lanes, 10'000, host), 1 + 2.5, 1e-9);
  EXPECT_NEAR(us(Way::sliced_lanes, 10'000, host), 2 + 3, 1e-9);
  EXPECT_NEAR(us(Way::lanes, 300'000, host), 3 + 75, 1e-9);  // three pieces
}

TEST(CostModel, FlagsGoRoundFirstOrAlong) {
  for (const Way way : kOverMessages) {
    const Surroundings at = hosts_of_one(5);
    const double without = us(way, 400, at);
    const double with = cost_us(way, {400, true}, at, round_constants());
    EXPECT_NEAR(with - without, way == Way::recursive_doubling ? 0 : 300, 1e-9) << name_of(way);
  }
}

TEST(CostModel, AHostsLinkCarriesWhatItsRanksSend) {
  const Surroundings at{.size = 4, .hosts = 2, .segment_bytes = 100'000};
  // Ring: half of the hops are between hosts, one rank of a host sends on each; blocks of 10,000.
  EXPECT_NEAR(us(Way::ring, 40'000, at), 6 * (55 + 100) + 3, 1e-9);
  // Doubling: the first round is inside, in the second both ranks of a host send what they keep: 400 bytes, or, where
  // the first one halves, 20,000.
  EXPECT_NEAR(us(Way::recursive_doubling, 400, at), 10 + 0.4 + 100 + 8 + 0.08, 1e-9);
  EXPECT_NEAR(us(Way::recursive_doubling, 40'000, at), 2 * (10 + 20) + 100 + 400 + 4, 1e-9);
  // Halving: 20,000 from both ranks of a host, 10,000 from one and inside, both twice, at 1.5 beta; no round stays
  // inside.
  EXPECT_NEAR(us(Way::halving_doubling, 40'000, at), 400 + 1.5 * 2 * (400 + 100 + 10) + 3, 1e-9);
}

// Neighbours are on one host only where all hosts have as many ranks as it takes to pair them.
TEST(CostModel, WhereHostsAreUnevenEveryDoublingIsBetweenThem) {
  for (const Surroundings& at : {Surroundings{.size = 4, .hosts = 3, .segment_bytes = 100'000},
                                 Surroundings{.size = 8, .hosts = 3, .segment_bytes = 100'000}}) {
    const double rounds = at.size == 4 ? 2 : 3;
    EXPECT_NEAR(us(Way::recursive_doubling, 400, at), rounds * (100 + 400 * 0.01 * at.ranks_per_host() + 0.04), 1e-9);
  }
}

TEST(CostModel, HierarchicalIsAShareAcross) {
  Surroundings at{.size = 4, .hosts = 2, .lanes = 2, .segment_bytes = 100'000};
  const Surroundings outer = across(at);
  EXPECT_EQ(outer.size, 2);
  EXPECT_EQ(outer.sharing, 2);
  // 20,000 bytes a lane, whole and at half the link's speed; 2 meetings, two sums of everything.
  EXPECT_NEAR(us(Way::hierarchical, 40'000, at), 100 + 400 + 2 + 2 + 8, 1e-9);
  // Small data goes through one lane.
  EXPECT_NEAR(us(Way::hierarchical, 4000, at), 100 + 40 + 0.4 + 2 + 0.8, 1e-9);
}

TEST(CostModel, Broadcast) {
  const CostConstants constants = round_constants();
  // 4 ranks, 400 bytes: three hops, or two with one sent once and the other twice.
  EXPECT_NEAR(cost_us(Spread::chain, 400, hosts_of_one(4), constants), 3 * 104, 1e-9);
  EXPECT_NEAR(cost_us(Spread::tree, 400, hosts_of_one(4), constants), 200 + 3 * 4, 1e-9);
  // 1000 segments of 1000 bytes: the first takes all hops, the others follow.
  EXPECT_NEAR(cost_us(Spread::chain, 1'000'000, hosts_of_one(4), constants), 3 * 110 + 9990, 1e-9);
}

TEST(CostModel, MoreBytesNeverCostLess) {
  for (const int hosts : {2, 3, 4, 5, 8, 13, 64, 1000}) {
    for (const Way way : kOverMessages) {
      double before = 0;
      for (std::size_t bytes = 1; bytes < std::size_t{1} << 40; bytes += 1 + bytes / 7) {
        const double now = cost_us(way, {bytes}, hosts_of_one(hosts), fixed_costs());
        ASSERT_GE(now, before * (1 - 1e-9)) << name_of(way) << ", " << hosts << " hosts, " << bytes << " bytes";
        before = now;
      }
    }
  }
}

TEST(CostModel, FasterLinksNeverCostMore) {
  CostConstants slow = round_constants();
  CostConstants fast = slow;
  fast.network = {.alpha_us = 10, .beta_us = 0.001};
  for (const Way way : kOverMessages) {
    for (const std::size_t bytes : {8UL, 10'000UL, 1'000'000UL}) {
      EXPECT_LT(cost_us(way, {bytes}, hosts_of_one(6), fast), cost_us(way, {bytes}, hosts_of_one(6), slow));
    }
  }
}

// Known places: recursive doubling for small data, as it has the fewest messages; the ring for large data, as it hides
// them; halving and doubling between, the wider the more ranks there are.
TEST(CostModel, CrossoversAreWhereTheyBelong) {
  CostConstants constants = round_constants();
  constants.partner_factor = 1;
  constants.gamma_us = 0;
  const Surroundings at = hosts_of_one(4);
  // 2 alpha + 2 N beta 2 = 4 alpha + 1.5 N beta at N = 0.8 alpha/beta = 8000 bytes, for messages longer than a segment
  // of 1000 count twice. Up to there doubling is cheaper without halving.
  const auto difference = [&](std::size_t bytes) {
    return cost_us(Way::recursive_doubling, {bytes}, at, constants) -
           cost_us(Way::halving_doubling, {bytes}, at, constants);
  };
  EXPECT_LT(difference(7'900), 0);
  EXPECT_NEAR(difference(8'000), 0, 1e-9);
  EXPECT_GT(difference(8'100), 0);
  for (const int hosts : {4, 16, 64}) {
    const Surroundings many = hosts_of_one(hosts);
    EXPECT_LT(cost_us(Way::halving_doubling, {8000}, many, constants), cost_us(Way::ring, {8000}, many, constants));
    EXPECT_LT(cost_us(Way::ring, {1UL << 30}, many, constants),
              cost_us(Way::halving_doubling, {1UL << 30}, many, constants));
  }
}

TEST(CostModel, StaysFiniteForManyRanksAndMuchData) {
  for (int ranks = 2; ranks <= 10'000; ranks += 1 + ranks / 10) {
    const Surroundings flat = hosts_of_one(ranks);
    const Surroundings mixed{.size = ranks, .hosts = (ranks + 7) / 8, .lanes = 1};
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 31, std::size_t{1} << 50}) {
      for (const Way way : kOverMessages) {
        const double cost = cost_us(way, {bytes, true}, flat, fixed_costs());
        EXPECT_TRUE(std::isfinite(cost) && cost > 0) << name_of(way) << ", " << ranks << " ranks, " << bytes;
      }
      if (mixed.hosts == 1) continue;
      EXPECT_TRUE(std::isfinite(cost_us(Way::hierarchical, {bytes}, mixed, fixed_costs()))) << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace kolo::comm

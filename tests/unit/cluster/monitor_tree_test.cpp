#include "cluster/monitor_tree.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

namespace kolo::cluster {
namespace {

using testing::ElementsAre;

TEST(MonitorTree, HostsThenRanksOfAHost) {
  const MonitorTree tree({0, 0, 0, 1, 1, 2});
  EXPECT_TRUE(tree.is_root(0));
  EXPECT_THAT(tree.neighbours(0), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(tree.neighbours(3), ElementsAre(0, 4));
  EXPECT_THAT(tree.neighbours(5), ElementsAre(0));
  EXPECT_EQ(tree.next_hop(4, 5), 3);
  EXPECT_EQ(tree.next_hop(3, 5), 0);
  EXPECT_EQ(tree.next_hop(0, 5), 5);
  EXPECT_EQ(tree.next_hop(0, 4), 3);
}

TEST(MonitorTree, ReachesEverybodyAndLeavesAHostOncePerHostBelow) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> hosts;
    const auto size = static_cast<int>(1 + random() % 20);
    for (int rank = 0; rank < size; ++rank) hosts.push_back(static_cast<int>(random() % 5));
    const MonitorTree tree(hosts);
    int across = 0;
    for (Rank rank = 1; rank < size; ++rank) {
      ASSERT_LT(tree.parent(rank), rank);
      const auto host = [&](Rank of) { return hosts[static_cast<std::size_t>(of)]; };
      across += host(rank) != host(tree.parent(rank)) ? 1 : 0;
      for (Rank other = 0; other < rank; ++other) {
        int hops = 0;
        for (Rank at = rank; at != other; at = tree.next_hop(at, other)) ASSERT_LT(++hops, size);
      }
    }
    EXPECT_EQ(across, static_cast<int>(std::set<int>(hosts.begin(), hosts.end()).size()) - 1);
  }
}

}  // namespace
}  // namespace kolo::cluster

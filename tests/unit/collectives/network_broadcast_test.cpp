// Broadcasts over a Transport, and the two trees that one of them uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "collectives/double_tree.h"
#include "contract/contract_data.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "unit/collectives/network_harness.h"

namespace kolo::collectives::test {
namespace {

struct Subject {
  const char* name;
  std::unique_ptr<Operation> (*start)(const NetworkParts&, const BroadcastOptions&);
};
constexpr Subject kSubjects[] = {{"chain", start_chain_broadcast}, {"tree", start_tree_broadcast}};

class NetworkBroadcast : public testing::TestWithParam<Subject> {
 protected:
  void expect_from(Network& network, Rank root, std::size_t bytes) {
    const auto wanted = kolo::test::contribution(DType::u8, root, bytes);
    std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(network.size()), std::vector<std::byte>(bytes));
    data[static_cast<std::size_t>(root)] = wanted;
    network.run([&](const NetworkParts& parts) {
      return GetParam().start(parts, {data[static_cast<std::size_t>(parts.group->rank())].data(), bytes, root});
    });
    for (const auto& own : data) ASSERT_TRUE(own == wanted) << "root " << root << " of " << network.size();
  }
};
INSTANTIATE_TEST_SUITE_P(Each, NetworkBroadcast, testing::ValuesIn(kSubjects),
                         [](const auto& suite) { return std::string(suite.param.name); });

TEST_P(NetworkBroadcast, FromEveryRoot) {
  for (const int size : {2, 3, 4, 5, 6, 7, 8, 9, 16}) {
    Network network(size);
    network.segment_bytes = 1000;
    for (Rank root = 0; root < size; ++root) {
      for (const std::size_t bytes : {0, 1, 999, 1000, 1001, 70'003}) expect_from(network, root, bytes);
    }
  }
}

TEST_P(NetworkBroadcast, InSegmentsOfTheDefaultLength) {
  for (const int size : {2, 3, 6, 9}) {
    Network network(size);
    expect_from(network, size - 1, 2'000'003);
    for (Rank rank = 0; rank < size; ++rank) {
      EXPECT_LE(network.traffic(rank).longest, network.segment_bytes);
      EXPECT_LE(network.traffic(rank).bytes, 2'000'003U + 2 * kCacheLine) << "more than once through rank " << rank;
    }
  }
}

TEST_P(NetworkBroadcast, TruncatedMessagesAreNoticed) {
  transport::Faults faults;
  faults.truncate = 1;
  Network network(3, faults);
  std::vector<std::byte> data(5000);
  EXPECT_THROW(network.run([&](const NetworkParts& parts) {
    return GetParam().start(parts, {data.data(), data.size(), 0});
  }),
               BackendError);
}

int levels_below(int tree, Rank rank, int size, Rank root) {
  int most = 0;
  for (const Rank child : tree_node(tree, rank, size, root).children) {
    EXPECT_EQ(tree_node(tree, child, size, root).parent, rank);
    most = std::max(most, 1 + levels_below(tree, child, size, root));
  }
  return most;
}

TEST(DoubleTree, InnerInOneIsLeafInTheOther) {
  for (int size = 2; size <= 70; ++size) {
    for (const Rank root : {0, 1, size - 1}) {
      int edges = 0;
      for (Rank rank = 0; rank < size; ++rank) {
        const TreeNode nodes[] = {tree_node(0, rank, size, root), tree_node(1, rank, size, root)};
        for (const TreeNode& node : nodes) {
          EXPECT_EQ(node.parent.has_value(), rank != root);
          EXPECT_LE(node.children.size(), rank == root ? 1U : 2U);
          edges += static_cast<int>(node.children.size());
        }
        EXPECT_TRUE(rank == root || nodes[0].children.empty() || nodes[1].children.empty()) << rank << " of " << size;
      }
      EXPECT_EQ(edges, 2 * (size - 1));
      const int logarithm = std::bit_width(static_cast<unsigned>(size - 1));
      for (const int tree : {0, 1}) EXPECT_EQ(levels_below(tree, root, size, root), logarithm) << size;
    }
  }
}

TEST(DoubleTree, SharesCoverEverything) {
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{8191}, std::size_t{8192}, std::size_t{100'001}, (std::size_t{1} << 33) + 5}) {
    const TreeShares shares = tree_shares(count, 4, 60 * 1024);
    EXPECT_EQ(shares.half[0].begin, 0U);
    EXPECT_EQ(shares.half[0].end, shares.half[1].begin);
    EXPECT_EQ(shares.half[1].end, count);
    EXPECT_EQ(shares.half[1].size() == 0, count < 8192) << count;
    EXPECT_GE(shares.segment_elements, 1U);
    EXPECT_LE(shares.segment_elements * 4, 60U * 1024U);
  }
  EXPECT_EQ(tree_shares(100, 8, 1).segment_elements, 1U);
}

}  // namespace
}  // namespace kolo::collectives::test

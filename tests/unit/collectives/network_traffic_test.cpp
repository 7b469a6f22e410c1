// What docs/algorithms.md says an allreduce sends, counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "collectives/double_tree.h"
#include "unit/collectives/network_harness.h"

namespace kolo::collectives::test {
namespace {

constexpr int kSizes[] = {2, 3, 4, 5, 6, 7, 8, 12, 16};
using Start = std::unique_ptr<Operation> (*)(const NetworkParts&, const AllreduceOptions&);

int log2_up(int size) { return std::bit_width(static_cast<unsigned>(size - 1)); }

// One allreduce of `bytes` a rank, with so many flag words.
void allreduce(Network& network, Start start, std::size_t bytes, std::size_t flag_words = 0) {
  const auto size = static_cast<std::size_t>(network.size());
  std::vector<std::vector<float>> data(size, std::vector<float>(bytes / sizeof(float)));
  std::vector<std::vector<std::uint64_t>> words(size, std::vector<std::uint64_t>(flag_words));
  network.forget_traffic();
  network.run([&](const NetworkParts& parts) {
    const auto rank = static_cast<std::size_t>(parts.group->rank());
    AllreduceOptions options;
    options.data = reinterpret_cast<std::byte*>(data[rank].data());
    options.count = data[rank].size();
    options.flags.words = words[rank];
    return start(parts, options);
  });
}

// A whole number of segments for each rank's block.
std::size_t even_bytes(const Network& network) {
  return static_cast<std::size_t>(network.size()) * 3 * network.segment_bytes;
}

// Every rank sends 2 (p-1)/p of the data, in whole segments.
void sends_the_least_there_is(Network& network, Start start) {
  const std::size_t bytes = even_bytes(network);
  allreduce(network, start, bytes);
  const auto others = static_cast<std::size_t>(network.size() - 1);
  for (Rank rank = 0; rank < network.size(); ++rank) {
    EXPECT_EQ(network.traffic(rank).bytes, 2 * others * bytes / static_cast<std::size_t>(network.size()));
    EXPECT_EQ(network.traffic(rank).messages, 2 * others * 3);
    EXPECT_LE(network.traffic(rank).longest, network.segment_bytes);
  }
}

TEST(Traffic, RingIsTheLeastThereIs) {
  for (const int size : kSizes) {
    Network network(size);
    sends_the_least_there_is(network, start_ring_allreduce);
  }
}

TEST(Traffic, HalvingDoublingSendsAsLittleInLogarithmicallyManyRounds) {
  for (const int size : kSizes) {
    Network network(size);
    sends_the_least_there_is(network, start_halving_doubling_allreduce);
    allreduce(network, start_halving_doubling_allreduce, static_cast<std::size_t>(size) * kCacheLine);
    const auto rounds = static_cast<std::size_t>(2 * log2_up(size));
    for (Rank rank = 0; rank < size; ++rank) {
      EXPECT_GE(network.traffic(rank).messages, rounds);
      EXPECT_LE(network.traffic(rank).messages, 2 * rounds);  // where a round's blocks lie in two stretches
    }
  }
}

TEST(Traffic, TreeSendsTwiceTheDataAtMost) {
  for (const int size : kSizes) {
    Network network(size);
    const std::size_t bytes = 32 * network.segment_bytes;
    allreduce(network, start_tree_allreduce, bytes);
    std::size_t total = 0;
    for (Rank rank = 0; rank < size; ++rank) {
      std::size_t edges = 0;
      for (const int tree : {0, 1}) {
        const TreeNode node = tree_node(tree, rank, size, 0);
        edges += node.children.size() + (node.parent ? 1 : 0);
      }
      EXPECT_LE(edges, rank == 0 ? 2U : 4U);
      EXPECT_EQ(network.traffic(rank).bytes, edges * bytes / 2) << rank << " of " << size;
      EXPECT_EQ(network.traffic(rank).messages, edges * 16);
      EXPECT_LE(network.traffic(rank).longest, network.segment_bytes);
      total += network.traffic(rank).bytes;
    }
    EXPECT_EQ(total, 2 * static_cast<std::size_t>(size - 1) * bytes);
  }
}

TEST(Traffic, RecursiveDoublingCarriesTheFlagsInTheSameMessages) {
  for (const int size : kSizes) {
    Network network(size);
    allreduce(network, start_recursive_doubling<0>, 400, 3);
    const int full = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
    const int surplus = size - full;
    for (Rank rank = 0; rank < size; ++rank) {
      const auto doublings = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(full)) - 1);
      const bool folds = rank < 2 * surplus;
      const std::size_t wanted = !folds ? doublings : rank % 2 == 0 ? 1 : doublings + 1;
      EXPECT_EQ(network.traffic(rank).messages, wanted) << rank << " of " << size;
      EXPECT_EQ(network.traffic(rank).bytes, wanted * (400 + 3 * 8));
    }
  }
}

// h rounds more, and what is halved in one is less in all that follow. The ranks that are folded send everything.
TEST(Traffic, RecursiveDoublingSendsLessWhereItHalves) {
  constexpr std::size_t kBytes = 64 * kCacheLine;
  constexpr Start kHalving[] = {start_recursive_doubling<0>, start_recursive_doubling<1>, start_recursive_doubling<2>,
                                start_recursive_doubling<3>};
  for (const int size : kSizes) {
    const auto full = std::bit_floor(static_cast<unsigned>(size));
    const int surplus = size - static_cast<int>(full);
    const auto doublings = static_cast<std::size_t>(std::bit_width(full) - 1);
    for (std::size_t h = 0; h < std::max<std::size_t>(doublings, 1); ++h) {
      Network network(size);
      allreduce(network, kHalving[h], kBytes, 3);
      const std::size_t kept = kBytes >> h;
      for (Rank rank = 0; rank < size; ++rank) {
        const bool folds = rank < 2 * surplus;
        const bool gives = folds && rank % 2 == 0;
        const std::size_t flags = gives ? 1 : doublings + (folds ? 1 : 0);
        const std::size_t bytes = gives ? kBytes : 2 * (kBytes - kept) + (doublings - h) * kept + (folds ? kBytes : 0);
        EXPECT_EQ(network.traffic(rank).messages, flags + (gives ? 0 : h)) << rank << " of " << size;
        EXPECT_EQ(network.traffic(rank).bytes, bytes + flags * 3 * 8) << rank << " of " << size << ", h " << h;
      }
    }
  }
}

TEST(Traffic, FlagsOfTheOthersAreOneSmallMessageARound) {
  for (const Start start : {start_ring_allreduce, start_tree_allreduce, start_halving_doubling_allreduce}) {
    for (const int size : kSizes) {
      Network network(size);
      allreduce(network, start, 0, 3);
      for (Rank rank = 0; rank < size; ++rank) {
        EXPECT_EQ(network.traffic(rank).messages, static_cast<std::size_t>(log2_up(size)));
        EXPECT_EQ(network.traffic(rank).bytes, 24 * network.traffic(rank).messages);
      }
    }
  }
}

// A link that waited for one segment's end before the next begins would be idle in between.
TEST(Traffic, SeveralSegmentsAreInFlight) {
  for (const Start start : {start_ring_allreduce, start_tree_allreduce, start_halving_doubling_allreduce}) {
    Network network(5);
    allreduce(network, start, 40 * network.segment_bytes);
    for (Rank rank = 0; rank < 5; ++rank) EXPECT_GE(network.traffic(rank).in_flight_max, 4U) << rank;
  }
}

}  // namespace
}  // namespace kolo::collectives::test

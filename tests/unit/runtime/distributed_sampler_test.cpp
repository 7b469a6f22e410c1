#include "kolo/distributed_sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "kolo/error.h"

namespace {

using kolo::DistributedSampler;
using kolo::Tail;
using testing::ElementsAre;
using Samples = std::vector<std::int64_t>;

DistributedSampler sampler(std::int64_t size, int rank, int ranks, Tail tail = Tail::pad) {
  return DistributedSampler({.dataset_size = size, .rank = rank, .ranks = ranks, .seed = 7, .tail = tail});
}

// The samples of all ranks in one epoch, interleaved in the order of the sampler.
Samples interleaved(std::int64_t size, int ranks, Tail tail, std::uint64_t epoch = 0) {
  std::vector<Samples> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    auto one = sampler(size, rank, ranks, tail);
    one.set_epoch(epoch);
    parts.push_back(one.next(1000));
  }
  Samples all;
  for (std::size_t i = 0; i < parts[0].size(); ++i) {
    for (const auto& part : parts) {
      if (i < part.size()) all.push_back(part[i]);
    }
  }
  return all;
}

// The numbers are the contract: another order would change every training run.
TEST(DistributedSampler, OrderEqualsRecordedNumbers) {
  EXPECT_THAT(DistributedSampler::order(10, 0, 0), ElementsAre(6, 3, 2, 9, 8, 1, 4, 7, 0, 5));
  EXPECT_THAT(DistributedSampler::order(10, 42, 3), ElementsAre(7, 0, 1, 6, 5, 3, 2, 9, 4, 8));
}

TEST(DistributedSampler, OrderIsAPermutationThatDependsOnSeedAndEpoch) {
  std::set<Samples> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      Samples order = DistributedSampler::order(100, seed, epoch);
      seen.insert(order);
      std::sort(order.begin(), order.end());
      Samples all(100);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all);
    }
  }
  EXPECT_EQ(seen.size(), 16U);
}

TEST(DistributedSampler, EveryValueIsEquallyLikelyAtEveryPosition) {
  int counts[6][6] = {};
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) {
    const auto order = DistributedSampler::order(6, 1, epoch);
    for (int position = 0; position < 6; ++position) ++counts[position][order[static_cast<std::size_t>(position)]];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  }
}

TEST(DistributedSampler, OrderIsEqualForAnyNumberOfRanks) {
  const Samples order = DistributedSampler::order(60, 7, 2);
  for (const int ranks : {1, 2, 3, 4, 5}) EXPECT_EQ(interleaved(60, ranks, Tail::exact, 2), order);
}

TEST(DistributedSampler, TailIsPaddedDroppedOrExact) {
  const Samples order = DistributedSampler::order(10, 7, 0);
  Samples padded = order;
  padded.insert(padded.end(), order.begin(), order.begin() + 2);
  EXPECT_EQ(interleaved(10, 4, Tail::pad), padded);
  EXPECT_EQ(interleaved(10, 4, Tail::drop), Samples(order.begin(), order.begin() + 8));
  EXPECT_EQ(interleaved(10, 4, Tail::exact), order);
  EXPECT_EQ(sampler(10, 1, 4, Tail::exact).size(), 3);
  EXPECT_EQ(sampler(10, 2, 4, Tail::exact).size(), 2);
  EXPECT_EQ(interleaved(2, 5, Tail::pad).size(), 5U);
  EXPECT_TRUE(interleaved(0, 3, Tail::pad).empty());
}

TEST(DistributedSampler, ContinuesAtCursorWithOtherNumberOfRanks) {
  const Samples order = DistributedSampler::order(60, 7, 5);
  auto before = sampler(60, 0, 4);
  before.set_epoch(5);
  EXPECT_EQ(before.next(6).size(), 6U);
  EXPECT_EQ(before.cursor(), 24);
  auto after = sampler(60, 1, 2);
  after.restore(5, before.cursor());
  EXPECT_THAT(after.next(2), ElementsAre(order[25], order[27]));
}

// For every cursor and number of ranks, the samples are the rest of the order, with the tail padded, dropped or exact.
TEST(DistributedSampler, RestoreAtAnyCursorYieldsEachRemainingSampleOnce) {
  constexpr std::int64_t kSize = 23;
  const Samples order = DistributedSampler::order(kSize, 7, 5);
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (std::int64_t cursor = 0; cursor <= kSize; ++cursor) {
      for (const Tail tail : {Tail::pad, Tail::drop, Tail::exact}) {
        const std::int64_t rest = kSize - cursor;
        const std::int64_t rounds = tail == Tail::drop ? rest / ranks : (rest + ranks - 1) / ranks;
        Samples expected(order.begin() + cursor, order.end());
        if (tail == Tail::drop) expected.resize(static_cast<std::size_t>(rounds * ranks));
        for (std::int64_t i = 0; tail == Tail::pad && rest + i < rounds * ranks; ++i) {
          expected.push_back(order[static_cast<std::size_t>(i)]);
        }
        std::vector<Samples> parts;
        for (int rank = 0; rank < ranks; ++rank) {
          auto one = sampler(kSize, rank, ranks, tail);
          one.restore(5, cursor);
          EXPECT_EQ(one.cursor(), cursor);
          const std::int64_t size = one.size();
          parts.push_back(one.next(1000));
          EXPECT_EQ(size, static_cast<std::int64_t>(parts.back().size()));
        }
        Samples dealt;
        for (std::size_t i = 0; i < static_cast<std::size_t>(rounds); ++i) {
          for (const auto& part : parts) {
            if (i < part.size()) dealt.push_back(part[i]);
          }
        }
        EXPECT_EQ(dealt, expected) << ranks << " ranks, cursor " << cursor << ", tail " << static_cast<int>(tail);
      }
    }
  }
}

TEST(DistributedSampler, CursorBeyondDatasetIsUsageError) {
  auto one = sampler(10, 0, 4);
  EXPECT_THROW(one.restore(0, 11), kolo::UsageError);
  EXPECT_THROW(one.restore(0, -1), kolo::UsageError);
  EXPECT_EQ(one.next(100).size(), 3U);
  EXPECT_EQ(one.cursor(), 10) << "padding is no sample of the data set";
  one.restore(0, one.cursor());
  EXPECT_TRUE(one.next(100).empty());
  one.set_epoch(1);
  EXPECT_EQ(one.next(100).size(), 3U) << "the next epoch begins at its beginning";
}

TEST(DistributedSampler, WithoutShuffleOrderIsThatOfDataset) {
  DistributedSampler plain({.dataset_size = 5, .rank = 1, .ranks = 2, .shuffle = false, .tail = Tail::exact});
  plain.set_epoch(3);
  EXPECT_THAT(plain.next(9), ElementsAre(1, 3));
}

TEST(DistributedSampler, InvalidOptionsAreUsageError) {
  EXPECT_THROW(sampler(5, 2, 2), kolo::UsageError);
  EXPECT_THROW(sampler(5, 0, 0), kolo::UsageError);
  EXPECT_THROW(sampler(-1, 0, 1), kolo::UsageError);
}

}  // namespace

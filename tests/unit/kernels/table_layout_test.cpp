#include "kernels/table_layout.h"

#include <gtest/gtest.h>

#include <random>

#include "kolo/error.h"

namespace kolo::kernels {
namespace {

TEST(TableLayout, ChunksCoverEveryElementOnceInOrder) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorPlace> places(random() % 40);
    for (TensorPlace& place : places) place.count = random() % 5 == 0 ? 0 : random() % 3000;
    const std::size_t chunk_elements = 1 + random() % 700;
    const std::vector<Chunk> chunks = cut_chunks(places, chunk_elements);
    auto next = chunks.begin();
    for (std::size_t tensor = 0; tensor < places.size(); ++tensor) {
      std::size_t covered = 0;
      for (; next != chunks.end() && next->tensor == tensor; ++next) {
        ASSERT_EQ(next->first, covered);
        ASSERT_GT(next->count, 0u);
        ASSERT_LE(next->count, chunk_elements);
        covered += next->count;
        ASSERT_TRUE(next->count == chunk_elements || covered == places[tensor].count) << "a small one before the last";
      }
      ASSERT_EQ(covered, places[tensor].count);
    }
    ASSERT_EQ(next, chunks.end());
  }
}

TEST(TableLayout, TensorsOfMoreThanThirtyTwoBits) {
  const std::size_t count = (std::size_t{1} << 33) + 5;
  const std::vector<Chunk> chunks = cut_chunks(std::vector<TensorPlace>{{0, count}}, std::size_t{1} << 30);
  ASSERT_EQ(chunks.size(), 9u);
  EXPECT_EQ(chunks.back().first, std::size_t{1} << 33);
  EXPECT_EQ(chunks.back().count, 5u);
}

TEST(TableLayout, WhatDoesNotFitIsRefused) {
  const std::vector<TensorPlace> places{{0, std::size_t{1} << 40}};
  EXPECT_THROW((void)cut_chunks(places, 1), UsageError);
  EXPECT_THROW((void)cut_chunks(places, 0), UsageError);
  EXPECT_THROW((void)cut_chunks(places, std::size_t{1} << 32), UsageError);
}

TEST(TableLayout, ChunksAreSmallerWhereManyBlocksShareLittle) {
  EXPECT_EQ(chunk_bytes_for(std::size_t{1} << 30, 528), kLargestChunk);
  EXPECT_EQ(chunk_bytes_for(std::size_t{102} << 20, 528), 16u * 1024);  // 12 for each of them
  EXPECT_EQ(chunk_bytes_for(std::size_t{1} << 20, 528), kSmallestChunk);
  EXPECT_EQ(chunk_bytes_for(0, 528), kSmallestChunk);
}

}  // namespace
}  // namespace kolo::kernels

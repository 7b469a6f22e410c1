#include "engine/gradient_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

#include "comm/make.h"

namespace kolo::engine {
namespace {

GradientInfo floats(std::int64_t count) { return {"p", {count}, {1}, DType::f32}; }

std::unique_ptr<GradientArena> make_arena(const std::vector<GradientInfo>& table, std::size_t from) {
  const auto communicator = comm::make_self();
  const std::size_t sizes[] = {GradientArena::bytes_for(table, from)};
  auto memory = std::move(communicator->allocate(sizes, std::chrono::seconds(1))[0]);
  return std::make_unique<GradientArena>(table, from, std::move(memory));
}

// 100, 100, 4 and 1000 floats; four are too few.
const std::vector<GradientInfo> kTable{floats(100), floats(1000), floats(4), floats(100)};

TEST(GradientArena, HasABlockForEveryGradientOfASize) {
  EXPECT_EQ(GradientArena::bytes_for(kTable, 100), 448U + 448U + 4032U);
  EXPECT_EQ(GradientArena::bytes_for(kTable, 1 << 20), 0U);
  const auto arena = make_arena(kTable, 100);
  std::set<void*> blocks;
  for (const std::size_t bytes : {400U, 4000U, 400U}) {
    void* block = arena->take(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
    EXPECT_TRUE(arena->owns(block));
    EXPECT_TRUE(arena->owns(static_cast<std::byte*>(block) + bytes - 1));
    EXPECT_TRUE(blocks.insert(block).second);
    std::memset(block, 0xff, bytes);
  }
  EXPECT_EQ(arena->take(400), nullptr);
  EXPECT_EQ(arena->take(4000), nullptr);
  int own = 0;
  EXPECT_FALSE(arena->owns(&own));
}

TEST(GradientArena, HasNothingForOtherSizes) {
  const auto arena = make_arena(kTable, 100);
  for (const std::size_t bytes : {0U, 16U, 399U, 401U, 448U, 5000U}) EXPECT_EQ(arena->take(bytes), nullptr) << bytes;
}

TEST(GradientArena, GivesABlockOutAgainTheLastOneFirst) {
  const auto arena = make_arena(kTable, 100);
  void* first = arena->take(400);
  void* second = arena->take(400);
  arena->give_back(first);
  arena->give_back(second);
  EXPECT_EQ(arena->take(400), second);
  EXPECT_EQ(arena->take(400), first);
  EXPECT_EQ(arena->take(400), nullptr);
}

TEST(GradientArena, ABlockOfARoundIsNotTakenAgainBeforeTheRoundIsOver) {
  const auto arena = make_arena(kTable, 100);
  void* block = arena->take(4000);
  EXPECT_TRUE(arena->pin(block, 4000));
  arena->give_back(block);
  EXPECT_EQ(arena->take(4000), nullptr);
  arena->unpin();
  EXPECT_EQ(arena->take(4000), block);
  EXPECT_TRUE(arena->pin(block, 4000));
  arena->unpin();
  EXPECT_EQ(arena->take(4000), nullptr);  // still in use
  arena->give_back(block);
  EXPECT_EQ(arena->take(4000), block);
}

TEST(GradientArena, ARoundTakesWholeBlocksInUseOnce) {
  const auto arena = make_arena(kTable, 100);
  auto* block = static_cast<std::byte*>(arena->take(400));
  auto* other = static_cast<std::byte*>(arena->take(400));
  EXPECT_FALSE(arena->pin(block + 64, 400));
  EXPECT_FALSE(arena->pin(block, 396));
  EXPECT_FALSE(arena->pin(block, 4000));
  EXPECT_TRUE(arena->pin(block, 400));
  EXPECT_FALSE(arena->pin(block, 400));
  arena->give_back(other);
  EXPECT_FALSE(arena->pin(other, 400));
  int own = 0;
  EXPECT_FALSE(arena->pin(&own, 400));
  EXPECT_FALSE(arena->pin(nullptr, 400));
}

TEST(GradientArena, WhatIsNoBlockIsNotGivenBack) {
  const auto arena = make_arena(kTable, 100);
  auto* block = static_cast<std::byte*>(arena->take(4000));
  int own = 0;
  arena->give_back(&own);
  arena->give_back(block + 64);
  EXPECT_EQ(arena->take(4000), nullptr);
  arena->give_back(block);
  arena->give_back(block);  // twice
  EXPECT_EQ(arena->take(4000), block);
  EXPECT_EQ(arena->take(4000), nullptr);
}

// Threads take, write, hand on and give back blocks; nobody ever finds his mark overwritten.
TEST(GradientArena, BelongsToOneThreadAtATime) {
  constexpr int kThreads = 4;
  const auto arena = make_arena({floats(100), floats(100), floats(100), floats(50), floats(50)}, 1);
  std::atomic<void*> passed{nullptr};
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20000; ++i) {
        void* block = arena->take(i % 2 == 0 ? 400 : 200);
        if (block == nullptr) continue;
        std::memset(block, t, 200);
        std::this_thread::yield();
        for (int k = 0; k < 200; ++k) ASSERT_EQ(static_cast<const char*>(block)[k], t);
        if (void* before = passed.exchange(block)) arena->give_back(before);  // another thread's, perhaps
      }
    });
  }
  for (auto& thread : threads) thread.join();
  arena->give_back(passed.load());
  for (int i = 0; i < 3; ++i) EXPECT_NE(arena->take(400), nullptr);
  for (int i = 0; i < 2; ++i) EXPECT_NE(arena->take(200), nullptr);
  EXPECT_EQ(arena->take(400), nullptr);
  EXPECT_EQ(arena->take(200), nullptr);
}

}  // namespace
}  // namespace kolo::engine

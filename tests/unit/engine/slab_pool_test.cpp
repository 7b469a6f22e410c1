#include "engine/slab_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/make.h"
#include "comm/self_communicator.h"
#include "engine/unnamed_calls.h"

namespace kolo::engine {
namespace {

constexpr std::size_t kPart = 64 * 1024;
constexpr std::size_t kLimit = 64 * kPart;

struct Pool : testing::Test {
  std::unique_ptr<Communicator> communicator = comm::make_self();
  SlabPool pool{*communicator, std::chrono::seconds(1), kLimit};
};

TEST_F(Pool, ANameSubmittedAgainGivesUpItsMemory) {
  const auto first = pool.claim({"a"}, 5000);
  EXPECT_GE(first->bytes, 5000U);
  EXPECT_TRUE(pool.would_allocate({"b"}, 5000));
  EXPECT_FALSE(pool.would_allocate({"a"}, 5000));
  EXPECT_EQ(pool.claim({"a"}, 5000), first);
  EXPECT_NE(pool.claim({"b"}, 5000), first);
}

TEST_F(Pool, OperationsWithoutANameShareEightSlabs) {
  for (int call = 1; call <= 100; ++call) {
    static_cast<void>(pool.claim({memory_name_of("kolo/unnamed/" + std::to_string(call))}, 5000));
  }
  EXPECT_EQ(pool.size(), 8U);
  EXPECT_EQ(memory_name_of("loss"), "loss");
}

TEST_F(Pool, MemoryIsKeptWhileOneOfItsNamesHasItsResultThere) {
  const auto both = pool.claim({"a", "b"}, 100);
  EXPECT_NE(pool.claim({"a"}, 100), both);  // b's result lies in it
  EXPECT_EQ(pool.claim({"b"}, 100), both);
}

TEST_F(Pool, TakesTheSmallestThatIsLargeEnough) {
  const auto large = pool.claim({"a"}, 1 << 20);
  const auto small = pool.claim({"b"}, 1 << 14);
  EXPECT_EQ(pool.claim({"a", "b"}, 1 << 13), small);
  EXPECT_EQ(pool.claim({"c"}, 1 << 15), large);
}

TEST_F(Pool, HoweverRecurringNamesAreGroupedItStopsAllocating) {
  std::set<std::shared_ptr<Slab>> seen;
  for (int step = 0; step < 100; ++step) {
    const int split = 1 + step * 7 % 18;  // the first so many of twenty names together, then the rest
    std::vector<std::string> first, rest;
    for (int i = 0; i < 20; ++i) (i < split ? first : rest).push_back("t" + std::to_string(i));
    seen.insert(pool.claim(first, first.size() * 4096));
    seen.insert(pool.claim(rest, rest.size() * 4096));
  }
  EXPECT_LE(seen.size(), 8U);
}

TEST_F(Pool, KeepsAtMostItsBytesWhereEachNameComesOnce) {
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(pool.claim({"loss/step" + std::to_string(i)}, kPart));
    EXPECT_LE(pool.bytes(), kLimit);
  }
  EXPECT_EQ(pool.size(), kLimit / kPart);
}

TEST_F(Pool, KeepsAtMost4096Slabs) {
  SlabPool large(*communicator, std::chrono::seconds(1), std::size_t{1} << 30);
  for (int i = 0; i < 5000; ++i) static_cast<void>(large.claim({"once" + std::to_string(i)}, 64));
  EXPECT_EQ(large.size(), 4096U);
}

TEST_F(Pool, LetsGoOfTheSlabThatWasClaimedLongestAgo) {
  for (const char* name : {"a", "b", "c"}) static_cast<void>(pool.claim({name}, kLimit / 4));
  static_cast<void>(pool.claim({"a"}, kLimit / 4));  // claimed again: b is the oldest now
  static_cast<void>(pool.claim({"d"}, kLimit / 2));
  EXPECT_FALSE(pool.would_allocate({"a"}, kLimit / 4));
  EXPECT_TRUE(pool.would_allocate({"b"}, kLimit / 4));
  EXPECT_FALSE(pool.would_allocate({"c"}, kLimit / 4));
}

TEST_F(Pool, LetsGoOfFreeSlabsToo) {
  static_cast<void>(pool.claim({"a"}, kLimit / 2));
  static_cast<void>(pool.claim({"a"}, kLimit));  // larger: the first slab is free
  EXPECT_EQ(pool.bytes(), kLimit);
  EXPECT_EQ(pool.size(), 1U);
}

TEST_F(Pool, MemoryThatItLetGoLivesAsLongAsItsResult) {
  const std::shared_ptr<Slab> kept = pool.claim({"kept"}, 64);
  kept->buffer->data()[0] = std::byte{7};
  static_cast<void>(pool.claim({"other"}, kLimit));
  EXPECT_TRUE(pool.would_allocate({"kept"}, 64));
  EXPECT_EQ(kept->buffer->data()[0], std::byte{7});
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(Pool, SlabAboveTheLimitIsNotKeptAndEndsNoOther) {
  const auto small = pool.claim({"small"}, kPart);
  const std::shared_ptr<Slab> large = pool.claim({"large"}, kLimit + 1);
  EXPECT_GT(large->bytes, kLimit);
  EXPECT_EQ(large.use_count(), 1);
  EXPECT_EQ(pool.bytes(), small->bytes);
  EXPECT_TRUE(pool.would_allocate({"large"}, kLimit + 1));
}

TEST_F(Pool, NamesThatNeedMoreThanTheLimitAreServedAgainAndAgain) {
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_GE(pool.claim({"w" + std::to_string(i)}, kLimit / 4)->buffer->data().size(), kLimit / 4);
      EXPECT_LE(pool.bytes(), kLimit);
    }
  }
}

TEST(PoolOfNoBytes, KeepsNothing) {
  const auto communicator = comm::make_self();
  SlabPool pool(*communicator, std::chrono::seconds(1), 0);
  EXPECT_EQ(pool.claim({"a"}, 100).use_count(), 1);
  EXPECT_EQ(pool.size(), 0U);
}

}  // namespace
}  // namespace kolo::engine

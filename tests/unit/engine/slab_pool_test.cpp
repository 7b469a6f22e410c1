#include "engine/slab_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/make.h"
#include "comm/self_communicator.h"

namespace kolo::engine {
namespace {

struct Pool : testing::Test {
  std::unique_ptr<Communicator> communicator = comm::make_self();
  SlabPool pool{*communicator, std::chrono::seconds(1)};
};

TEST_F(Pool, ANameSubmittedAgainGivesUpItsMemory) {
  const auto first = pool.claim({"a"}, 5000);
  EXPECT_GE(first->bytes, 5000U);
  EXPECT_TRUE(pool.would_allocate({"b"}, 5000));
  EXPECT_FALSE(pool.would_allocate({"a"}, 5000));
  EXPECT_EQ(pool.claim({"a"}, 5000), first);
  EXPECT_NE(pool.claim({"b"}, 5000), first);
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

TEST_F(Pool, NamesThatNeverComeAgainDoNotGrowItForEver) {
  std::shared_ptr<Slab> kept = pool.claim({"kept"}, 64);
  kept->buffer->data()[0] = std::byte{7};
  for (int i = 0; i < 5000; ++i) static_cast<void>(pool.claim({"once" + std::to_string(i)}, 64));
  EXPECT_LE(pool.size(), 4096U);
  EXPECT_EQ(kept->buffer->data()[0], std::byte{7});  // let go of, and alive
}

}  // namespace
}  // namespace kolo::engine

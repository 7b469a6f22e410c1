#include "engine/codec.h"

#include <gtest/gtest.h>

#include <random>

#include "kolo/error.h"

namespace kolo::engine {
namespace {

Envelope example() {
  Envelope envelope;
  envelope.epoch = 3;
  envelope.depth = 2;
  Entry entry;
  entry.name = "layer.weight";
  entry.signature = {Kind::allgather, DType::bf16, {2, 3}, {3, 1}, ReduceOp::max, 0.5, 2.0, 1, "table\n"};
  entry.conflict = Conflict{entry.signature, 1, {}, 2};
  entry.ranks = {0, 4};
  entry.bytes = {12, std::uint64_t{1} << 40};
  entry.order = {2, 1, 0};
  entry.failed_ranks = {4};
  entry.beside = {2, 70000};
  entry.failure = "out of memory";
  envelope.entries = {entry};
  Item item;
  item.names = {"a", "b"};
  item.beside = {1};
  item.sequence = 9;
  envelope.items = {item};
  envelope.fatal = Fatal{FatalKind::peer_left, {2}, "left", 5, {1, 2}, 77, 3, {8, 9}, 12, FailedRound{4, 6}, true};
  return envelope;
}

TEST(Codec, GivesBackWhatItWasGiven) {
  const auto before = example();
  const auto after = decode(encode(before));
  EXPECT_EQ(after.epoch, before.epoch);
  ASSERT_EQ(after.entries.size(), 1U);
  EXPECT_EQ(after.entries[0].signature, before.entries[0].signature);
  EXPECT_EQ(after.entries[0].conflict->second_rank, 2);
  EXPECT_EQ(after.entries[0].bytes, before.entries[0].bytes);
  EXPECT_EQ(after.entries[0].order, before.entries[0].order);
  EXPECT_EQ(after.entries[0].failure, "out of memory");
  EXPECT_EQ(after.entries[0].beside, before.entries[0].beside);
  EXPECT_EQ(after.items[0].beside, before.items[0].beside);
  EXPECT_EQ(after.items[0].names, before.items[0].names);
  EXPECT_EQ(after.fatal->kind, FatalKind::peer_left);
  EXPECT_EQ(after.fatal->rounds, before.fatal->rounds);
  EXPECT_EQ(after.fatal->calls, 77U);
  EXPECT_EQ(after.fatal->reducers, 3U);
  EXPECT_EQ(after.fatal->answered, before.fatal->answered);
  EXPECT_EQ(after.fatal->heard, 12U);
  EXPECT_EQ(after.fatal->failed_round, before.fatal->failed_round);
  EXPECT_TRUE(after.fatal->after_failure);
  EXPECT_FALSE(after.failure);
}

TEST(Codec, DamageIsAnErrorAndNeverACrash) {
  const auto good = encode(example());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    auto bad = good;
    bad.resize(random() % (good.size() + 1));
    for (int flips = 0; flips < 3 && !bad.empty(); ++flips)
      bad[random() % bad.size()] = static_cast<std::byte>(random());
    try {
      (void)decode(bad);
    } catch (const BackendError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace kolo::engine

#include "cluster/doubling_gather.h"

#include <gmock/gmock.h>

#include "kolo/error.h"

namespace kolo::cluster {
namespace {

std::string text_of(int rank) {
  return std::string(static_cast<std::size_t>(rank * 37 % 100), static_cast<char>(rank));
}

// All ranks in one thread, round by round.
TEST(DoublingGather, EverybodyHasEverybodysInRankOrder) {
  for (int size = 1; size <= 40; ++size) {
    std::vector<DoublingGather> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.emplace_back(rank, size, text_of(rank));
    int rounds = 0;
    for (; ranks[0].more(); ++rounds) {
      std::vector<std::vector<std::byte>> sent;
      for (const auto& rank : ranks) {
        sent.push_back(rank.outgoing());
        EXPECT_EQ(ranks[static_cast<std::size_t>(rank.to())].from(), &rank - ranks.data());
      }
      for (auto& rank : ranks) rank.take(sent[static_cast<std::size_t>(rank.from())]);
    }
    EXPECT_LE(rounds, 6);
    for (auto& rank : ranks) {
      EXPECT_FALSE(rank.more());
      const auto all = std::move(rank).all();
      ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
      for (int r = 0; r < size; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r));
    }
  }
}

// What a rank throws that gets `bytes` from the other one.
std::string told_by(const std::vector<std::byte>& bytes) {
  DoublingGather gather(0, 2, "mine");
  try {
    gather.take(bytes);
  } catch (const BackendError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(DoublingGather, TornMessagesAreErrors) {
  const std::vector<std::byte> short_text{std::byte{3}, {}, {}, {}, {}, {}, {}, {}, std::byte{'a'}, std::byte{'b'}};
  EXPECT_THAT(told_by({3, std::byte{1}}), testing::HasSubstr("truncated message from rank 1 (3 of 8 bytes)"));
  EXPECT_THAT(told_by(short_text), testing::HasSubstr("truncated message from rank 1 (2 of 3 bytes)"));
  EXPECT_THAT(told_by(std::vector<std::byte>(16)), testing::HasSubstr("rank 1 sent 2 texts, not 1."));
  EXPECT_THAT(told_by({}), testing::HasSubstr("rank 1 sent 0 texts"));
}

}  // namespace
}  // namespace kolo::cluster

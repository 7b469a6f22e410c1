#include "transport/transport_bootstrap.h"

#include <gmock/gmock.h>

#include <thread>

#include "kolo/error.h"
#include "support/thread_ranks.h"
#include "transport/make.h"

namespace kolo::transport {
namespace {

using namespace std::chrono_literals;

ConversationParts parts_over(Transport& transport, std::vector<std::shared_ptr<void>>& kept) {
  ConversationParts parts;
  parts.transport = &transport;
  parts.tag = 100;
  parts.timeout = 60s;
  parts.keep = [&](std::shared_ptr<void> memory) { kept.push_back(std::move(memory)); };
  return parts;
}

std::string text_of(int rank, int round) {
  return std::string(static_cast<std::size_t>((rank * 37 + round * 11) % 100), static_cast<char>('a' + rank));
}

TEST(TransportBootstrap, EverybodyHearsEverybodyInRankOrder) {
  for (int ranks = 1; ranks <= 7; ++ranks) {
    auto ends = make_inproc(ranks);
    std::vector<std::shared_ptr<void>> kept;
    test::run_ranks(ranks, [&](int rank) {
      auto parts = parts_over(*ends[static_cast<std::size_t>(rank)], kept);
      parts.device = 10 + rank;
      const auto bootstrap = make_transport_bootstrap(std::move(parts));
      EXPECT_EQ(bootstrap->placement().rank, rank);
      EXPECT_EQ(bootstrap->placement().local_size, ranks);
      EXPECT_EQ(bootstrap->placement().device, 10 + rank);
      for (int round = 0; round < 3; ++round) {
        const auto all = bootstrap->allgather(text_of(rank, round));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r, round));
      }
    });
    EXPECT_TRUE(kept.empty());
  }
}

TEST(TransportBootstrap, WhoDoesNotComeIsNamed) {
  auto ends = make_inproc(2);
  std::vector<std::shared_ptr<void>> kept;
  auto parts = parts_over(*ends[0], kept);
  parts.timeout = 50ms;
  try {
    static_cast<void>(make_transport_bootstrap(std::move(parts)));
    ADD_FAILURE() << "rank 1 never came";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.missing(), testing::ElementsAre(1));
  }
  EXPECT_EQ(kept.size(), 1U);  // transfers may still use it
}

TEST(TransportBootstrap, AWaitEndsByWhatIsLearntMeanwhile) {
  auto ends = make_inproc(2);
  std::vector<std::shared_ptr<void>> kept;
  auto parts = parts_over(*ends[0], kept);
  parts.while_waiting = [] { throw PeerLostError(1, "rank 1 died"); };
  EXPECT_THROW(static_cast<void>(make_transport_bootstrap(std::move(parts))), PeerLostError);
}

TEST(TransportBootstrap, WhatCannotBeIsNotReadFor) {
  auto ends = make_inproc(2);
  const std::uint64_t length = std::uint64_t{1} << 40;
  const auto announced = ends[1]->send(0, 100, std::as_bytes(std::span(&length, 1)));
  std::vector<std::shared_ptr<void>> kept;
  try {
    static_cast<void>(make_transport_bootstrap(parts_over(*ends[0], kept)));
    ADD_FAILURE() << "a message of a terabyte";
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1 announces 1099511627776 bytes"));
  }
}

}  // namespace
}  // namespace kolo::transport

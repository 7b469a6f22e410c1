// The Transport contract with ranks as threads: inproc, tcp, and shm over memory that is shared by threads or by
// processes.
#include <gtest/gtest.h>

#include "cluster/make.h"
#include "contract/transport_contract.h"
#include "support/faulty_transport.h"
#include "support/sanitizers.h"
#include "support/thread_ranks.h"
#include "transport/make.h"
#include "transport/subset.h"

namespace kolo {
namespace {

using namespace std::chrono_literals;
using Ends = std::vector<std::unique_ptr<transport::Transport>>;

Ends make_shm_ends(int ranks, bool over_processes_memory) {
  auto bootstraps = cluster::make_inproc_bootstrap(ranks);
  auto memories = transport::make_inproc_shared_memory(ranks);
  Ends ends(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (over_processes_memory) memories[at] = transport::make_process_shared_memory(*bootstraps[at], 30s);
    ends[at] = transport::make_shm(*bootstraps[at], *memories[at], 30s);
  });
  return ends;
}

Ends make_tcp_ends(int ranks) {
  static telemetry::Counters counters;
  auto bootstraps = cluster::make_inproc_bootstrap(ranks);
  Ends ends(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    ends[at] = transport::make_tcp(*bootstraps[at], {}, counters);
  });
  return ends;
}

Ends make_ends(const std::string& kind, int ranks) {
  if (kind == "delayed") {
    Ends ends = transport::make_inproc(ranks);
    for (auto& end : ends) {
      const auto seed = static_cast<std::uint64_t>(end->rank() + 1);
      end = transport::make_faulty(std::move(end), {.seed = seed, .max_delay_tests = 5});
    }
    return ends;
  }
  if (kind == "inproc") return transport::make_inproc(ranks);
  if (kind == "tcp") return make_tcp_ends(ranks);
  return make_shm_ends(ranks, kind == "shm_processes");
}

class TransportOfThreads : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(TransportOfThreads, KeepsContract) {
  const auto [kind, ranks] = GetParam();
  Ends ends = make_ends(kind, ranks);
  for (const auto& a_case : test::transport_cases()) {
    SCOPED_TRACE(a_case.name);
    EXPECT_NO_THROW(test::run_ranks(ranks, [&](int rank) {
      auto& end = *ends[static_cast<std::size_t>(rank)];
      ASSERT_EQ(end.rank(), rank);
      ASSERT_EQ(end.size(), ranks);
      a_case.run(end);
      test::meet(end);
    }));
  }
}

// Three of seven ranks in reverse order; the others take no part.
TEST(SubsetTransport, KeepsContract) {
  constexpr int kMembers = 3;
  const std::vector<Rank> members = {5, 3, 1};
  Ends whole = transport::make_inproc(7);
  for (const auto& a_case : test::transport_cases()) {
    SCOPED_TRACE(a_case.name);
    EXPECT_NO_THROW(test::run_ranks(kMembers, [&](int rank) {
      const auto at = static_cast<std::size_t>(members[static_cast<std::size_t>(rank)]);
      const auto end = transport::make_subset(*whole[at], members);
      ASSERT_EQ(end->rank(), rank);
      ASSERT_EQ(end->size(), kMembers);
      a_case.run(*end);
      test::meet(*end);
    }));
  }
}

TEST(SubsetTransport, PeerLostErrorNamesRankOfWholeGroup) {
  Ends whole = transport::make_inproc(4);
  const auto end = transport::make_subset(*whole[1], {3, 1});
  whole[3].reset();
  test::Bytes never(1);
  try {
    test::finish(*end, *end->receive(0, 1, never));
    ADD_FAILURE() << "rank 3 is gone";
  } catch (const PeerLostError& error) {
    EXPECT_EQ(error.rank(), 3);
  }
}

TEST(SubsetTransport, InvalidMembersAreUsageError) {
  Ends whole = transport::make_inproc(3);
  EXPECT_THROW((void)transport::make_subset(*whole[0], {1, 2}), UsageError);     // not itself
  EXPECT_THROW((void)transport::make_subset(*whole[0], {0, 3}), UsageError);     // nobody
  EXPECT_THROW((void)transport::make_subset(*whole[0], {0, 1, 1}), UsageError);  // twice
}

TEST_P(TransportOfThreads, MessageSentBeforeDestructionArrivesBeforePeerLostError) {
  const auto [kind, ranks] = GetParam();
  Ends ends = make_ends(kind, ranks);
  test::run_ranks(ranks, [&](int rank) {
    auto& end = ends[static_cast<std::size_t>(rank)];
    if (rank == 0) {
      const test::Bytes out = test::pattern(0, 1, 0, 40);
      test::finish(*end, *end->send(1, 4, out));
      end.reset();
    } else if (rank == 1) {
      test::Bytes in(40);
      test::Bytes never(40);
      const auto second = end->receive(0, 6, never);
      test::finish(*end, *end->receive(0, 4, in));
      EXPECT_EQ(in, test::pattern(0, 1, 0, 40));
      try {
        test::finish(*end, *second);
        ADD_FAILURE() << "rank 0 is gone";
      } catch (const PeerLostError& error) {
        EXPECT_EQ(error.rank(), 0);
        EXPECT_STREQ(error.what(), "rank 0 has shut down its Context");
      }
      EXPECT_THROW(test::finish(*end, *end->receive(0, 7, never)), PeerLostError);
    }
  });
}

TEST_P(TransportOfThreads, WakeOfOtherThreadEndsWait) {
  const auto [kind, ranks] = GetParam();
  Ends ends = make_ends(kind, ranks);
  const test::Watchdog watchdog("a wait that is woken", 60s);
  std::thread waker([&] {
    std::this_thread::sleep_for(20ms);
    ends[0]->wake();
  });
  ends[0]->wait_for_activity(100s);
  waker.join();
}

INSTANTIATE_TEST_SUITE_P(Threads, TransportOfThreads,
                         testing::Combine(testing::Values("inproc", "delayed", "shm_threads", "shm_processes", "tcp"),
                                          testing::ValuesIn(test::kSanitized ? std::vector<int>{2, 3}
                                                                             : std::vector<int>{2, 3, 4, 5})),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

}  // namespace
}  // namespace kolo

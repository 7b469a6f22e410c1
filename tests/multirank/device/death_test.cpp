// NCCL notices that a peer's connection has closed before anybody has said whose process has ended. Ranks are threads,
// engines over messages; rank 2 falls silent, and a test says when it is known to be dead.
#include <gmock/gmock.h>

#include <thread>

#include "multirank/device/nccl_trainee.h"

namespace kolo::test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;

// `check` gets the errors of ranks 0 and 1, after NCCL has failed on both. `found`: that rank 2 is dead, some time
// afterwards.
template <class Check>
void fail_nccl(std::chrono::milliseconds death_notice, bool found, const Check& check) {
  NcclRanks ranks(kRanks);
  const auto mode = CoordinatorMode::automatic;
  run_trainees(ranks, kRanks, death_notice, mode, [&](int rank, auto& trainee, auto& liveness, auto& attendance) {
    if (rank == 0) {
      for (const int live : {0, 1}) ranks.nccl.break_rank(live, nccl::Result::remote_error, "a connection was closed");
    }
    attendance.meet();
    std::jthread news;
    if (found && rank != 2) {
      news = std::jthread([&] {
        std::this_thread::sleep_for(200ms);
        liveness.report_loss(2, "its process has ended");
      });
    }
    try {
      while (true) trainee.step();  // what rank 2 does is the last that it did
    } catch (const Error& error) {
      if (rank != 2) check(error);
    }
    attendance.meet();
  });
}

TEST(Death, ThatNcclNoticesFirstIsThePeersAndNotThisRanksFailure) {
  fail_nccl(30s, true, [](const Error& error) {
    const auto* lost = dynamic_cast<const PeerLostError*>(&error);
    ASSERT_NE(lost, nullptr) << error.what();
    EXPECT_EQ(lost->rank(), 2);
    EXPECT_THAT(error.what(), testing::HasSubstr("its process has ended"));
  });
}

TEST(Death, ThatNobodyFindsIsTheFailureThatItSeemedToBe) {
  for (const auto notice : {300ms, 0ms}) {
    fail_nccl(notice, false, [](const Error& error) {
      EXPECT_NE(dynamic_cast<const BackendError*>(&error), nullptr);
      EXPECT_THAT(error.what(), testing::ContainsRegex("rank [01]: NCCL.*a connection was closed"));
    });
  }
}

}  // namespace
}  // namespace kolo::test

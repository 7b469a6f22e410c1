#include "run_job.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>

namespace kolo::tools {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Job::Clock::time_point kBegin{};

Job all_running(int ranks, bool recovery = false, bool allow_lost = false) {
  Job job({"./train", ranks, recovery, allow_lost}, kBegin);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(job.started({"", rank, "h" + std::to_string(rank), 100 + rank}));
  }
  return job;
}

TEST(RunJob, AllOk) {
  Job job = all_running(2);
  EXPECT_FALSE(job.over());
  job.ended(0, {How::exited, 0}, kBegin + 1s);
  EXPECT_FALSE(job.over());
  job.ended(1, {How::exited, 0}, kBegin + 2s);
  EXPECT_TRUE(job.over());
  EXPECT_FALSE(job.failed());
  EXPECT_EQ(job.status(), 0);
  EXPECT_EQ(job.summary(kBegin + 2s), std::vector<std::string>{"2 ranks: 2 ok in 2.0 s"});
}

TEST(RunJob, TheFirstFailureCounts) {
  Job job = all_running(3);
  job.ended(1, {How::exited, 3}, kBegin + 1s);
  EXPECT_TRUE(job.failed());
  job.ending();
  job.ended(0, {How::signalled, SIGTERM}, kBegin + 2s);
  job.ended(2, {How::exited, 0}, kBegin + 2s);
  EXPECT_EQ(job.status(), 3);
  const auto lines = job.summary(kBegin + 2s);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "3 ranks: 1 ok, 2 failed in 2.0 s; exit status 3");
  EXPECT_EQ(lines[1], "rank 1 on h1: exit status 3, after 1.0 s");
  EXPECT_EQ(lines[2], "rank 0 on h0: killed by SIGTERM, after 2.0 s, when the job was ended");
}

TEST(RunJob, RanksThatAllStoppedEarlyAreNoFailure) {
  for (const bool by_signal : {false, true}) {
    Job job = all_running(2);
    if (by_signal) {
      job.interrupted(SIGTERM);
      job.ending();
    }
    job.ended(0, {How::exited, kStatusStopped}, kBegin + 1s);
    job.ended(1, {How::exited, kStatusStopped}, kBegin + 2s);
    EXPECT_EQ(job.status(), 75);
    const std::string cause = by_signal ? "; interrupted by SIGTERM" : "";
    EXPECT_EQ(job.summary(kBegin + 2s), std::vector<std::string>{"2 ranks: stopped early in 2.0 s" + cause +
                                                                 "; exit status 75: start the job again"});
  }
}

TEST(RunJob, RankThatWasKilledWhileOthersStoppedEarlyIsAFailure) {
  Job job = all_running(2);
  job.interrupted(SIGTERM);
  job.ending();
  job.ended(0, {How::exited, kStatusStopped}, kBegin + 1s);
  job.ended(1, {How::signalled, SIGKILL}, kBegin + 2s);
  EXPECT_EQ(job.status(), 143);
}

// They end in any order.
TEST(RunJob, WhoWasToldOfAFailureHasNotFailedFirst) {
  for (const bool recovery : {false, true}) {
    Job job = all_running(3, recovery);
    job.ended(0, {How::exited, 4, true}, kBegin + 1s);
    EXPECT_EQ(job.failed(), !recovery);
    job.ended(2, {How::signalled, SIGABRT, true}, kBegin + 1s);
    job.ended(1, {How::exited, 3}, kBegin + 2s);
    EXPECT_EQ(job.status(), 3);
    const auto lines = job.summary(kBegin + 2s);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[1], "rank 1 on h1: exit status 3, after 2.0 s");
    EXPECT_EQ(lines[2], "rank 0 on h0: exit status 4, after 1.0 s, because another rank failed, left or was missing");
    EXPECT_THAT(lines[3], HasSubstr("rank 2 on h2: aborted (SIGABRT), after 1.0 s, because"));
  }
}

TEST(RunJob, WhoWasEndedForAFailureHasNotFailedFirst) {
  Job job = all_running(2);
  job.ended(0, {How::exited, 4, true}, kBegin + 1s);
  job.ending();
  job.ended(1, {How::signalled, SIGTERM}, kBegin + 2s);
  EXPECT_EQ(job.status(), 4);
}

// Its peers give up a rank that does not answer, kill it, and end with what they were told: sooner than word of the
// killed one comes.
TEST(RunJob, WhoWasKilledBeforeTheJobWasEndedHasFailedFirst) {
  Job job = all_running(3);
  job.ended(1, {How::exited, 3, true}, kBegin + 1s);
  job.ended(2, {How::signalled, SIGKILL}, kBegin + 1s);
  job.ending();
  job.ended(0, {How::signalled, SIGTERM}, kBegin + 2s);
  EXPECT_EQ(job.status(), 137);
  const auto lines = job.summary(kBegin + 2s);
  EXPECT_EQ(lines.at(1), "rank 2 on h2: killed by SIGKILL, after 1.0 s");
  EXPECT_EQ(lines.at(2), "rank 1 on h1: exit status 3, after 1.0 s, because another rank failed, left or was missing");
  EXPECT_EQ(lines.at(3), "rank 0 on h0: killed by SIGTERM, after 2.0 s, when the job was ended");
}

TEST(RunJob, OfManyTheFirstAreTold) {
  Job job = all_running(100);
  job.ended(42, {How::signalled, SIGKILL}, kBegin + 1s);
  for (int rank = 0; rank < 100; ++rank) {
    if (rank != 42) job.ended(rank, {How::exited, 3, true}, kBegin + 2s);
  }
  const auto lines = job.summary(kBegin + 2s);
  ASSERT_EQ(lines.size(), 1U + 16 + 1);
  EXPECT_THAT(lines.front(), HasSubstr("100 ranks: 0 ok, 100 failed"));
  EXPECT_EQ(lines.at(1), "rank 42 on h42: killed by SIGKILL, after 1.0 s");
  EXPECT_EQ(lines.back(), "and 84 more ranks");
}

TEST(RunJob, SomebodyHasFailedFirstEvenIfAllWereTold) {
  Job job = all_running(2);
  job.ended(1, {How::exited, 5, true}, kBegin + 1s);
  job.ended(0, {How::exited, 4, true}, kBegin + 2s);
  EXPECT_EQ(job.status(), 5);
}

TEST(RunJob, SaysWhoEndedAProgram) {
  const auto story_of = [](End end) {
    Job job = all_running(1);
    job.ended(0, end, kBegin);
    return job.summary(kBegin).at(1);
  };
  EXPECT_EQ(story_of({How::signalled, SIGKILL}), "rank 0 on h0: killed by SIGKILL, after 0.0 s");
  EXPECT_EQ(story_of({How::signalled, SIGABRT}), "rank 0 on h0: aborted (SIGABRT), after 0.0 s");
  EXPECT_EQ(story_of({How::signalled, SIGSEGV}), "rank 0 on h0: crashed by SIGSEGV, after 0.0 s");
  EXPECT_EQ(story_of({How::not_started, ENOENT}),
            "rank 0 on h0: './train' could not be started: No such file or directory, after 0.0 s");
}

TEST(RunJob, AProgramThatIsThereButWhatRunsItIsNot) {
  Job job = all_running(1);
  job.ended(0, {How::not_started, ELIBACC}, kBegin);
  EXPECT_EQ(job.status(), 126);
  EXPECT_THAT(job.summary(kBegin).at(1), HasSubstr("'./train' could not be started: the file exists, but"));
}

TEST(RunJob, OutputThatCannotBeWritten) {
  Job job = all_running(1);
  job.unwritable("standard output", ENOSPC);
  EXPECT_TRUE(job.failed());
  job.ended(0, {How::signalled, SIGTERM}, kBegin);
  EXPECT_EQ(job.status(), kStatusUnwritable);
  EXPECT_EQ(job.summary(kBegin).at(0),
            "1 rank: 0 ok, 1 failed in 0.0 s; standard output could not be written: No space left on device; "
            "exit status 122");
}

TEST(RunJob, OutputThatIsLostAtTheEndCountsWhereNothingElseWent) {
  for (const bool recovery : {false, true}) {
    Job failed = all_running(1, recovery);
    failed.ended(0, {How::exited, 3}, kBegin);
    failed.unwritable("standard output", ENOSPC);
    EXPECT_EQ(failed.status(), 3);
    Job ok = all_running(1, recovery);
    ok.ended(0, {How::exited, 0}, kBegin);
    ok.unwritable("standard output", ENOSPC);
    EXPECT_EQ(ok.status(), kStatusUnwritable);
  }
}

TEST(RunJob, StatusesAsAShellHasThem) {
  const auto status_of = [](End end) {
    Job job = all_running(1);
    job.ended(0, end, kBegin);
    return job.status();
  };
  EXPECT_EQ(status_of({How::signalled, SIGKILL}), 137);
  EXPECT_EQ(status_of({How::signalled, SIGSEGV}), 139);
  EXPECT_EQ(status_of({How::not_started, ENOENT}), 127);
  EXPECT_EQ(status_of({How::not_started, EACCES}), 126);
  EXPECT_EQ(status_of({How::orphaned, 0}), kStatusLost);
  EXPECT_EQ(status_of({How::exited, 255}), 255);
}

TEST(RunJob, ALostRank) {
  Job job = all_running(2);
  job.lost(1, kBegin + 3s);
  job.ended(0, {How::exited, 0}, kBegin + 4s);
  EXPECT_TRUE(job.over());
  EXPECT_EQ(job.status(), kStatusLost);
  EXPECT_THAT(job.summary(kBegin + 4s)[0], HasSubstr("1 ok, 1 lost"));
}

TEST(RunJob, RecoveryGoesOnButIsNotSilent) {
  Job job = all_running(3, true);
  job.ended(2, {How::signalled, SIGKILL}, kBegin + 1s);
  EXPECT_FALSE(job.failed());
  job.ended(0, {How::exited, 0}, kBegin + 2s);
  job.ended(1, {How::exited, 0}, kBegin + 2s);
  EXPECT_EQ(job.status(), 137);
}

TEST(RunJob, AllowLost) {
  Job job = all_running(3, true, true);
  job.ended(2, {How::signalled, SIGKILL}, kBegin + 1s);
  job.lost(1, kBegin + 1s);
  job.ended(0, {How::exited, 0}, kBegin + 2s);
  EXPECT_EQ(job.status(), 0);
  EXPECT_THAT(job.summary(kBegin + 2s)[0], HasSubstr("1 ok, 1 failed, 1 lost"));
}

TEST(RunJob, AllowLostDoesNotExcuseAStatus) {
  Job job = all_running(2, true, true);
  job.ended(1, {How::exited, 4}, kBegin + 1s);
  job.ended(0, {How::exited, 0}, kBegin + 2s);
  EXPECT_EQ(job.status(), 4);
}

TEST(RunJob, SomebodyMustBeLeft) {
  Job job = all_running(2, true, true);
  job.lost(0, kBegin);
  job.ended(1, {How::signalled, SIGKILL}, kBegin);
  EXPECT_EQ(job.status(), kStatusLost);
}

TEST(RunJob, InterruptAndTimeLimit) {
  Job job = all_running(1);
  job.interrupted(SIGINT);
  job.timed_out();
  job.ended(0, {How::exited, 0}, kBegin);
  EXPECT_EQ(job.status(), 130);
  Job late = all_running(1);
  late.timed_out();
  late.ended(0, {How::signalled, SIGKILL}, kBegin);
  EXPECT_EQ(late.status(), kStatusTimeout);
  EXPECT_THAT(late.summary(kBegin)[0], HasSubstr("time limit"));
}

TEST(RunJob, RanksThatWereNotStarted) {
  Job job({"./train", 2, false, false}, kBegin);
  EXPECT_TRUE(job.started({"", 0, "h0", 1}));
  EXPECT_FALSE(job.all_started());
  job.launcher_ended(kBegin);
  EXPECT_FALSE(job.over());
  job.ended(0, {How::signalled, SIGTERM}, kBegin);
  EXPECT_TRUE(job.over());
  EXPECT_EQ(job.status(), kStatusNotStarted);
}

TEST(RunJob, StrangersAreRefused) {
  Job job = all_running(2);
  EXPECT_FALSE(job.started({"", 2, "h", 1}));
  EXPECT_FALSE(job.started({"", -1, "h", 1}));
  EXPECT_FALSE(job.started({"", 1, "h", 1}));  // is there already
}

}  // namespace
}  // namespace kolo::tools

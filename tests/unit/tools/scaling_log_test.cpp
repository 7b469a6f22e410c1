#include "scaling_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kolo/error.h"
#include "support/temporary_folder.h"

namespace kolo::tools {
namespace {

using testing::HasSubstr;

std::string head(int rank, int size) {
  return R"({"kind":"step_log","rank":)" + std::to_string(rank) + R"(,"size":)" + std::to_string(size) +
         R"(,"host":"h)" + std::to_string(rank) +
         R"(","clock_offset_us":0,"clock_error_us":40,)"
         R"("facts":{"local_cores":"2","local_ranks":"1","libtorch":"2.11.0"}})"
         "\n";
}

// A step of 1 ms that begins at `start_us` and calls step() after `synchronize_us`.
std::string step(int number, double start_us, double synchronize_us) {
  return R"({"kind":"step","step":)" + std::to_string(number) + R"(,"start_us":)" + std::to_string(start_us) +
         R"(,"step_us":1000,"before_first_gradient_us":300,"backward_us":400,"exposed_us":150,"optimizer_us":100,)"
         R"("other_us":50,"communication_us":200,"synchronize_us":)" +
         std::to_string(synchronize_us) + R"(,"reductions":2,"reduced_bytes":4096})" + "\n";
}

class ScalingLog : public testing::Test {
 protected:
  void write(int rank, const std::string& text) { folder_.write("steps.rank" + std::to_string(rank) + ".jsonl", text); }
  std::string refusal(int ranks, int warmup, int last) {
    try {
      static_cast<void>(read_run(folder_.path(), ranks, warmup, last));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  test::TemporaryFolder folder_;
};

TEST_F(ScalingLog, ReadsTheMeanOverRanksAndTheSlowestRank) {
  write(0, head(0, 2) + step(1, 0, 700) + step(2, 1000, 700));
  write(1, head(1, 2) + step(1, 20, 700) + step(2, 1010, 900));
  const RunLog run = read_run(folder_.path(), 2, 1, 2);
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_DOUBLE_EQ(run.steps[0].step_ms, 1);
  EXPECT_DOUBLE_EQ(run.steps[0].backward_ms, 0.4);
  EXPECT_DOUBLE_EQ(run.steps[0].communication_ms, 0.2);
  EXPECT_EQ(run.steps[0].slowest_rank, 1);
  EXPECT_NEAR(run.steps[0].slowest_wait_ms, 0.105, 1e-9);  // 1910 us, and 1700 us: the mean is 1805 us
  EXPECT_EQ(run.facts.at("libtorch"), "2.11.0");
  EXPECT_EQ(run.local_cores, 2);
  EXPECT_DOUBLE_EQ(run.clock_error_ms, 0.04);
}

TEST_F(ScalingLog, RanksThatReduceNothingDoNotWait) {
  std::string line = step(1, 0, 700);
  line.replace(line.find("4096"), 4, "0");
  write(0, head(0, 2) + line);
  write(1, head(1, 2) + line);
  EXPECT_EQ(read_run(folder_.path(), 2, 0, 1).steps[0].slowest_rank, -1);
}

TEST_F(ScalingLog, RanksWithoutACommonClockHaveNoSlowestRank) {
  for (int rank = 0; rank < 2; ++rank) {
    std::string text = head(rank, 2) + step(1, 0, 700 + 100 * rank);
    text.replace(text.find(R"("clock_error_us":40)"), 19, R"("clock_error_us":null)");
    text.replace(text.find(R"("communication_us":200)"), 22, R"("communication_us":null)");
    write(rank, text);
  }
  const RunLog run = read_run(folder_.path(), 2, 0, 1);
  EXPECT_EQ(run.steps[0].slowest_rank, -1);
  EXPECT_TRUE(std::isnan(run.steps[0].slowest_wait_ms));
  EXPECT_TRUE(std::isnan(run.steps[0].communication_ms));
  EXPECT_DOUBLE_EQ(run.steps[0].exposed_ms, 0.15);
}

TEST_F(ScalingLog, LastContextThatTrainedCounts) {
  write(0, head(0, 1) + step(1, 0, 1) + step(2, 1000, 1) + head(0, 1) + step(1, 5000, 2) + head(0, 1));
  const RunLog run = read_run(folder_.path(), 1, 0, 1);
  EXPECT_EQ(run.steps.size(), 1u);
  EXPECT_THAT(refusal(1, 0, 2), HasSubstr("the log ends after step 1 of 2"));
}

TEST_F(ScalingLog, IncompleteLastLineIsLeftOut) {
  const std::string last = step(2, 1000, 1);
  write(0, head(0, 1) + step(1, 0, 1) + last.substr(0, last.size() / 2));
  EXPECT_EQ(read_run(folder_.path(), 1, 0, 1).steps.size(), 1u);
}

TEST_F(ScalingLog, RefusesDamagedLogs) {
  EXPECT_THAT(refusal(1, 0, 1), HasSubstr("there is no step log"));
  write(0, head(0, 1) + "{]\n" + step(1, 0, 1));
  EXPECT_THAT(refusal(1, 0, 1), HasSubstr("steps.rank0.jsonl:2: not a line of a step log"));
  write(0, step(1, 0, 1));
  EXPECT_THAT(refusal(1, 0, 1), HasSubstr("a step comes before the head"));
  std::string unknown = step(1, 0, 1);
  unknown.replace(unknown.find("1000"), 4, "null");
  write(0, head(0, 1) + unknown);
  EXPECT_THAT(refusal(1, 0, 1), HasSubstr("steps.rank0.jsonl:2: not a line of a step log"));
  write(0, head(0, 1));
  EXPECT_THAT(refusal(1, 0, 1), HasSubstr("the log has no steps"));
  write(0, head(0, 1) + step(1, 0, 1));
  EXPECT_THAT(refusal(2, 0, 1), HasSubstr("a job with 1 ranks, not 2"));
}

TEST_F(ScalingLog, CounterFollowsAGrowingFile) {
  StepCounter counter(folder_.path(), 0);
  EXPECT_EQ(counter.count(), 0);
  std::string text = head(0, 1) + step(1, 0, 1);
  const std::string second = step(2, 1000, 1);
  write(0, text + second.substr(0, 10));
  EXPECT_EQ(counter.count(), 1);
  write(0, text += second);
  EXPECT_EQ(counter.count(), 2);
  write(0, text += head(0, 1) + step(1, 0, 1));
  EXPECT_EQ(counter.count(), 1);
}

}  // namespace
}  // namespace kolo::tools

#include "scaling_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kolo/error.h"
#include "scaling_compare.h"
#include "support/temporary_folder.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Four blocks of steps between step_ms - 1 and step_ms + 1, in three runs.
RowRuns measured(const std::string& key, const std::string& variant, int ranks, double step_ms) {
  RowRuns row;
  row.row.key = key;
  row.row.name = std::to_string(ranks) + " ranks";
  row.row.variant = variant;
  row.row.ranks = ranks;
  for (int run = 0; run < 3; ++run) {
    RunLog log;
    log.local_cores = 2;
    log.local_ranks = ranks;
    log.facts["libtorch"] = "2.11.0";
    for (std::size_t i = 0; i < 4 * kBlockSteps; ++i) {
      StepSample step;
      step.step_ms = step_ms - 1 + 2 * static_cast<double>(i % kBlockSteps) / (kBlockSteps - 1);
      step.backward_ms = step.step_ms - 3;
      step.exposed_ms = 3;
      step.slowest_rank = ranks > 1 ? static_cast<int>(i % 4 == 0 ? 0 : 1) : -1;
      step.reduced_bytes = 1000;
      log.steps.push_back(step);
    }
    row.runs.push_back(std::move(log));
  }
  return row;
}

ordered_json results(double two_ranks_ms = 20) {
  ScalingOptions options;
  options.items_per_step = 8;
  options.steps = options.warmup + 4 * static_cast<int>(kBlockSteps);
  return results_of(options,
                    {measured("ranks1", "", 1, 10), measured("ranks2", "", 2, two_ranks_ms),
                     measured("ranks2-sync-off", kSyncOff, 2, 16), RowRuns{}},
                    {{"cpu", "test"}});
}

TEST(ScalingResults, HoldMediansEfficienciesAndItems) {
  const ordered_json two = results().at("rows").at(1);
  EXPECT_DOUBLE_EQ(two.at("step_ms").at("value"), 20);
  EXPECT_DOUBLE_EQ(two.at("efficiency_to_one_rank").at("value"), 0.5);
  EXPECT_DOUBLE_EQ(two.at("efficiency_to_sync_off").at("value"), 0.8);
  EXPECT_DOUBLE_EQ(two.at("items_per_s"), 800);  // 2 ranks x 8 items in 20 ms
  EXPECT_EQ(two.at("slowest_rank").at("rank"), 1);
  EXPECT_DOUBLE_EQ(two.at("slowest_rank").at("share_of_steps"), 0.75);
  EXPECT_DOUBLE_EQ(two.at("parts").at("exposed_ms"), 3);
  EXPECT_NEAR(two.at("parts").at("backward_ms"), 17, 0.06);  // of the steps around the median
  EXPECT_EQ(two.at("steps"), 12 * kBlockSteps);
}

TEST(ScalingResults, RowsWithoutRunsAreLeftOut) { EXPECT_EQ(results().at("rows").size(), 3u); }

TEST(ScalingResults, SyncOffHasNoEfficiency) {
  const ordered_json alone = results().at("rows").at(2);
  EXPECT_FALSE(alone.contains("efficiency_to_one_rank"));
  EXPECT_DOUBLE_EQ(alone.at("step_to_default").at("value"), 0.8);
  EXPECT_FALSE(alone.contains("efficiency_to_sync_off"));
}

// A step of the peer takes 12 ms with one rank, and 30 ms with two.
ordered_json results_with_peer() {
  std::vector<RowRuns> rows{measured("ranks1", "", 1, 10), measured("ranks1-ddp", "PyTorch DDP", 1, 12),
                            measured("ranks2", "", 2, 20), measured("ranks2-ddp", "PyTorch DDP", 2, 30)};
  for (RowRuns& row : rows) {
    if (row.row.variant.empty()) continue;
    row.row.peer = "ddp";
    for (RunLog& run : row.runs) {
      for (StepSample& step : run.steps) {
        step.communication_ms = step.slowest_wait_ms = std::nan("");
        step.slowest_rank = -1;
      }
    }
  }
  ScalingOptions options;
  options.steps = options.warmup + 4 * static_cast<int>(kBlockSteps);
  options.peers = {{.name = "ddp"}, {.name = "mpi", .missing = "no MPI. Install one"}};
  return results_of(options, rows, {});
}

TEST(ScalingResults, EfficiencyOfAPeerRefersToThePeerWithOneRank) {
  const ordered_json all = results_with_peer();
  const ordered_json two = all.at("rows").at(3);
  EXPECT_EQ(two.at("peer"), "ddp");
  EXPECT_DOUBLE_EQ(two.at("efficiency_to_one_rank").at("value"), 0.4);
  EXPECT_DOUBLE_EQ(two.at("step_to_default").at("value"), 1.5);
  EXPECT_DOUBLE_EQ(all.at("rows").at(1).at("step_to_default").at("value"), 1.2);
  EXPECT_FALSE(all.at("rows").at(2).contains("peer"));
}

TEST(ScalingResults, PartsThatThePeerDoesNotKnowAreAbsent) {
  const ordered_json all = results_with_peer();
  const ordered_json two = all.at("rows").at(3);
  EXPECT_FALSE(two.at("parts").contains("communication_ms"));
  EXPECT_FALSE(two.at("parts").contains("slowest_wait_ms"));
  EXPECT_DOUBLE_EQ(two.at("parts").at("exposed_ms"), 3);
  EXPECT_FALSE(two.contains("slowest_rank"));
  EXPECT_THAT(table_of(all), AllOf(HasSubstr("2 ranks, PyTorch DDP"), Not(HasSubstr("nan"))));
}

TEST(ScalingResults, MissingPeerIsNamedBelowTheTable) {
  const ordered_json all = results_with_peer();
  EXPECT_EQ(all.at("missing_peers").size(), 1u);
  EXPECT_EQ(all.at("missing_peers").at("mpi"), "no MPI. Install one");
  EXPECT_THAT(table_of(all), HasSubstr("\npeer mpi is missing: no MPI. Install one\n"));
  EXPECT_FALSE(results().contains("missing_peers"));
}

TEST(ScalingResults, StrongScalingDividesTheStepOfOneRank) {
  ScalingOptions options;
  options.global_batch = 64;
  const auto json = results_of(options, {measured("ranks1", "", 1, 10), measured("ranks2", "", 2, 8)}, {});
  EXPECT_DOUBLE_EQ(json.at("rows").at(1).at("efficiency_to_one_rank").at("value"), 0.625);  // 10 / (2 x 8)
  EXPECT_DOUBLE_EQ(json.at("rows").at(1).at("items_per_s"), 8000);
  EXPECT_EQ(json.at("scaling"), "strong");
}

TEST(ScalingResults, EnvironmentHoldsFactsOfTheLog) {
  EXPECT_EQ(results().at("environment").at("libtorch"), "2.11.0");
  EXPECT_EQ(results().at("environment").at("cpu"), "test");
}

TEST(ScalingResults, ProgramThatEndedEarlyIsAWarning) {
  ScalingOptions options;
  options.steps = 200;
  const auto json = results_of(options, {measured("ranks1", "", 1, 10)}, {});
  EXPECT_THAT(json.at("rows").at(0).at("warnings").at(0).get<std::string>(), HasSubstr("80 of 190 steps"));
}

TEST(ScalingResults, MoreRanksThanCoresIsAWarning) {
  ScalingOptions options;
  options.steps = 90;
  const auto json = results_of(options, {measured("ranks1", "", 1, 10), measured("ranks4", "", 4, 20)}, {});
  EXPECT_TRUE(json.at("rows").at(0).at("warnings").empty());
  EXPECT_THAT(json.at("rows").at(1).at("warnings").at(0).get<std::string>(), HasSubstr("4 ranks share 2 cores"));
  EXPECT_THAT(table_of(json), AllOf(HasSubstr("4 ranks (1)"), HasSubstr("\n(1) 4 ranks share 2 cores")));
}

TEST(ScalingResults, OtherNumberOfThreadsIsAWarning) {
  RowRuns one = measured("ranks1", "", 1, 10);
  RowRuns two = measured("ranks2", "", 2, 10);
  one.runs.front().facts["threads"] = "2";
  two.runs.front().facts["threads"] = "1";
  ScalingOptions options;
  options.steps = 90;
  const auto json = results_of(options, {one, two}, {});
  EXPECT_THAT(json.at("rows").at(1).at("warnings").at(0).get<std::string>(),
              HasSubstr("threads of a rank: 1, and 2 in the row with one rank"));
}

TEST(ScalingResults, AdviceIsInTheResultsAndBelowTheTable) {
  const ordered_json json = results();
  ASSERT_FALSE(json.at("advice").empty());
  EXPECT_THAT(table_of(json), HasSubstr("\n* " + json.at("advice").at(0).get<std::string>() + "\n"));
}

TEST(ActiveInfiniband, NamesActivePortsWithTheirRates) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(active_infiniband(folder.path() / "none"), "");
  folder.write("mlx5_1/ports/1/state", "4: ACTIVE\n");
  folder.write("mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  folder.write("mlx5_0/ports/1/state", "1: DOWN\n");
  folder.write("mlx5_0/ports/1/rate", "10 Gb/sec (4X SDR)\n");
  folder.write("mlx5_0/ports/2/state", "4: ACTIVE\n");
  folder.write("mlx5_0/ports/2/rate", "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(active_infiniband(folder.path()), "mlx5_0 port 2: 100 Gb/sec (4X EDR), mlx5_1 port 1: 200 Gb/sec (4X HDR)");
}

// The comparison as text for a terminal.
std::string compare(const ordered_json& before, const ordered_json& after) {
  return table_of(comparison_of(before, after));
}

TEST(ScalingCompare, TellsAChangeFromNoise) {
  const std::string slower = compare(results(), results(21));
  EXPECT_THAT(slower, AllOf(HasSubstr("1.050"), HasSubstr("5.0 % slower"), HasSubstr("no change beyond noise")));
  EXPECT_THAT(compare(results(), results()), Not(HasSubstr("slower")));
  EXPECT_THAT(compare(results(21), results()), HasSubstr("4.8 % faster"));
}

TEST(ScalingCompare, NamesOtherRowsAndEnvironments) {
  ordered_json after = results();
  after["rows"][1]["key"] = "ranks3";
  after["environment"]["cpu"] = "another";
  EXPECT_THAT(compare(results(), after),
              AllOf(HasSubstr("only after: 2 ranks"), HasSubstr(R"(cpu differs: "test" before, "another" after)")));
  after["rows"] = ordered_json::array();
  EXPECT_THROW(static_cast<void>(compare(results(), after)), UsageError);
}

TEST(ScalingResults, ReadBackAsWritten) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "results.json", results().dump());
  EXPECT_EQ(read_results(folder.path()), results());
  for (const char* text : {"", "{", "[]", R"({"kind":"other"})"}) {
    folder.write("results.json", text);
    EXPECT_THROW(static_cast<void>(read_results(folder.path())), UsageError) << text;
  }
}

TEST(WriteFile, FullDiskIsAnErrorThatNamesTheFile) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder.path() / "results.json.tmp");
  try {
    write_file(folder.path() / "results.json", "x");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("results.json"));
  }
}

}  // namespace
}  // namespace kolo::tools

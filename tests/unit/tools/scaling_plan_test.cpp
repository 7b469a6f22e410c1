#include "scaling_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"
#include "scaling_gpus.h"
#include "support/scoped_variable.h"

namespace kolo::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> keys_of(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const Row& row : rows) keys.push_back(row.key);
  return keys;
}

ScalingOptions options_for(std::vector<int> ranks) {
  ScalingOptions options;
  options.ranks = std::move(ranks);
  options.command = {"./train"};
  return options;
}

std::string refusal_of(const ScalingOptions& options) {
  try {
    static_cast<void>(make_rows(options));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(MakeRows, AddsOneRankAndSyncOff) {
  EXPECT_THAT(keys_of(make_rows(options_for({2, 4}))),
              ElementsAre("ranks1", "ranks2", "ranks2-sync-off", "ranks4", "ranks4-sync-off"));
  const auto rows = make_rows(options_for({1, 2}));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[1].environment.empty());
  EXPECT_EQ(rows[2].environment.at("KOLO_SYNC"), "off");
}

TEST(MakeRows, CombinesHostsAndRates) {
  ScalingOptions options = options_for({});
  options.hosts = {2, 4};
  options.rates = {"1gbit", "10gbit"};
  EXPECT_THAT(keys_of(make_rows(options)),
              ElementsAre("ranks1", "hosts2-1gbit", "hosts2-1gbit-sync-off", "hosts2-10gbit", "hosts2-10gbit-sync-off",
                          "hosts4-1gbit", "hosts4-1gbit-sync-off", "hosts4-10gbit", "hosts4-10gbit-sync-off"));
}

TEST(MakeRows, AblationsLeaveOutWhatTheHostsCannotRun) {
  ScalingOptions options = options_for({});
  options.hosts = {2};
  options.ablate = {"overlap", "algorithm"};
  const auto keys = keys_of(make_rows(options));
  EXPECT_THAT(keys, ElementsAre("ranks1", "hosts2", "hosts2-sync-off", "hosts2-overlap-off", "hosts2-algorithm-ring",
                                "hosts2-algorithm-tree", "hosts2-algorithm-halving_doubling",
                                "hosts2-algorithm-recursive_doubling"));
}

// Peers that can run, and one that cannot.
ScalingOptions options_with_peers() {
  ScalingOptions options = options_for({1, 2});
  options.command = {"bin/imagenet_resnet50", "--data", "synthetic:device"};
  options.peers = {{.name = "ddp", .title = "PyTorch DDP", .words = {"ddp.py"}, .uses_gloo = true},
                   {.name = "loop", .title = "MPI loop", .missing = "no MPI"},
                   {.name = "mpi", .title = "flat MPI", .words = {"after", "--way", "mpi"}}};
  return options;
}

TEST(MakeRows, EachCountHasTheRowsOfThePeersThatCanRun) {
  const auto rows = make_rows(options_with_peers());
  EXPECT_THAT(keys_of(rows), ElementsAre("ranks1", "ranks1-ddp", "ranks1-mpi", "ranks2", "ranks2-sync-off",
                                         "ranks2-ddp", "ranks2-mpi"));
  EXPECT_EQ(rows[0].peer, "");
  EXPECT_EQ(rows[6].peer, "mpi");
  EXPECT_EQ(rows[6].variant, "flat MPI");
  EXPECT_THAT(rows[6].command, ElementsAre("after", "--way", "mpi", "--data", "synthetic:device"));
}

TEST(MakeRows, PeersShareTheGlobalBatchAndTheNetwork) {
  ScalingOptions options = options_with_peers();
  options.ranks.clear();
  options.hosts = {2};
  options.global_batch = 8;
  const auto rows = make_rows(options);
  ASSERT_THAT(keys_of(rows), ElementsAre("ranks1", "ranks1-ddp", "ranks1-mpi", "hosts2", "hosts2-sync-off",
                                         "hosts2-ddp", "hosts2-mpi"));
  EXPECT_THAT(rows[1].command,
              ElementsAre("env", "GLOO_SOCKET_IFNAME=lo", "ddp.py", "--data", "synthetic:device", "--batch", "8"));
  EXPECT_THAT(rows[5].command,
              ElementsAre("env", "GLOO_SOCKET_IFNAME=eth0", "ddp.py", "--data", "synthetic:device", "--batch", "4"));
}

TEST(MakeRows, StrongScalingDividesTheGlobalBatch) {
  ScalingOptions options = options_for({1, 4});
  options.global_batch = 64;
  const auto rows = make_rows(options);
  EXPECT_THAT(rows[0].command, ElementsAre("./train", "--batch", "64"));
  EXPECT_THAT(rows[1].command, ElementsAre("./train", "--batch", "16"));
}

TEST(MakeRows, RefusesWhatCannotBeMeasured) {
  ScalingOptions options = options_for({3});
  options.global_batch = 64;
  EXPECT_THAT(refusal_of(options), HasSubstr("64 cannot be divided by 3 ranks"));
  options = options_for({2});
  options.global_batch = 64;
  options.command = {"./train", "--batch=8"};
  EXPECT_THAT(refusal_of(options), HasSubstr("has --batch already"));
  options = options_for({2});
  options.ablate = {"buckets"};
  EXPECT_THAT(refusal_of(options), HasSubstr("not 'buckets'"));
  options = options_for({2});
  options.steps = 25;
  EXPECT_THAT(refusal_of(options), HasSubstr("--steps must exceed --warmup by at least 20"));
  options = options_for({2});
  options.rates = {"1gbit"};
  EXPECT_THAT(refusal_of(options), HasSubstr("--rate is for --hosts"));
  options.hosts = {2};
  options.rates = {"1gbit", "10gbti"};
  EXPECT_THAT(refusal_of(options), HasSubstr("'10gbti' is not a bandwidth"));
  options.rates = {"2.5gbit"};
  options.hosts = {2, 65};
  EXPECT_THAT(refusal_of(options), HasSubstr("at most 64 hosts"));
  options = options_with_peers();
  options.command = {"./train"};
  EXPECT_THAT(refusal_of(options), HasSubstr("compares with imagenet_resnet50"));
  options = options_for({2});
  options.command.clear();
  EXPECT_THAT(refusal_of(options), HasSubstr("the program is missing"));
}

TEST(MakeRows, RefusesVariablesThatItSets) {
  const test::ScopedVariable variable("KOLO_SYNC", "off");
  EXPECT_THAT(refusal_of(options_for({2})), HasSubstr("KOLO_SYNC is set"));
}

TEST(DoublingCounts, EndsWithTheLargestCount) {
  EXPECT_THAT(doubling_counts(1), ElementsAre(1));
  EXPECT_THAT(doubling_counts(8), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(doubling_counts(6), ElementsAre(1, 2, 4, 6));
}

TEST(ParseCounts, SortsAndRemovesDuplicates) { EXPECT_THAT(parse_counts("4,1,4,2", "--ranks"), ElementsAre(1, 2, 4)); }

TEST(ParseCounts, RefusesOtherWords) {
  for (const char* text : {"", ",", "0", "-1", "2x", "1.5", "99999999999"}) {
    EXPECT_THROW(static_cast<void>(parse_counts(text, "--ranks")), UsageError) << text;
  }
}

}  // namespace
}  // namespace kolo::tools

#include "scaling_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scaling_made_results.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;
using test::hosts_row;
using test::interval;
using test::made_results;
using test::made_row;
using test::peer_row;
using test::sync_off_row;
using test::with_efficiency;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// One rank takes 200 ms, and two hosts 400 ms, of which `exposed` ms.
ordered_json slow_network(double exposed = 200, double communication = 250) {
  ordered_json row = with_efficiency(hosts_row(2, "1gbit", 400), 200);
  row["parts"]["before_first_gradient_ms"] = 320 - exposed;
  row["parts"]["exposed_ms"] = exposed;
  row["parts"]["communication_ms"] = communication;
  return made_results({made_row(1, 200), row});
}

TEST(ScalingAdvice, NoRowsHaveNoAdvice) { EXPECT_THAT(advice(made_results({})), testing::IsEmpty()); }

TEST(ScalingAdvice, HeadlineHasTheEfficiencyOfTheLargestRow) {
  const auto results = made_results({made_row(1, 190), with_efficiency(made_row(2, 300), 190),
                                     with_efficiency(hosts_row(4, "10gbit", 500), 190),
                                     with_efficiency(hosts_row(4, "1gbit", 912), 190)});
  EXPECT_EQ(advice(results).front(),
            "4 emulated hosts, 1gbit: scaling efficiency 21 %. A step takes 912 ms; with one rank it takes 190 ms.");
}

TEST(ScalingAdvice, GoodEfficiencyHasNoLimits) {
  ordered_json results = slow_network();
  results["rows"][1]["efficiency_to_one_rank"] = interval(0.96);
  EXPECT_THAT(advice(results),
              ElementsAre(AllOf(HasSubstr("96 %"), HasSubstr("No part of the step limits the scaling."))));
  results["rows"][1]["efficiency_to_one_rank"] = interval(0.94);
  EXPECT_THAT(advice(results), ElementsAre(Not(HasSubstr("No part")), HasSubstr("The network is the limit")));
}

TEST(ScalingAdvice, OneRankAloneHasNoEfficiency) {
  EXPECT_THAT(advice(made_results({made_row(1, 45.2)})),
              ElementsAre("1 rank: a step takes 45.2 ms. Efficiency needs a row with more ranks."));
}

TEST(ScalingAdvice, MissingRowOfOneRankIsNamed) {
  EXPECT_THAT(advice(made_results({made_row(2, 300), sync_off_row(2, 280)})),
              ElementsAre("2 ranks: a step takes 300 ms. Efficiency needs the row with one rank."));
}

TEST(ScalingAdvice, LongCommunicationNamesNetworkBytesAndLineRate) {
  // Two hosts send 25 MB each: 0.2 s at 1 Gbit/s.
  ordered_json results = slow_network();
  results["rows"][1]["reduced_bytes"] = 25'000'000;
  EXPECT_THAT(advice(results),
              ElementsAre(testing::_,
                          "The network is the limit: a step waits 200 ms (50 %) for reductions of 25 MB. "
                          "The 1gbit link needs at least 200 ms for them; (comm.) is 250 ms. Try more samples for "
                          "each rank or a larger passes_per_step. If parameters are fp32, 16-bit parameters "
                          "halve the bytes to 12 MB."));
}

TEST(ScalingAdvice, FasterNetworkThatWasMeasuredIsNamed) {
  ordered_json results = slow_network();
  results["rows"].push_back(with_efficiency(hosts_row(2, "10gbit", 250), 200));
  EXPECT_THAT(advice(results), Contains(HasSubstr("Try a faster network (10gbit: 250 ms), more samples")));
}

TEST(ScalingAdvice, BackwardOnGpusNamesNoCores) {
  ordered_json row = with_efficiency(made_row(2, 250), 200);
  ordered_json alone = sync_off_row(2, 200);
  row["parts"]["backward_ms"] = 90;
  alone["parts"]["backward_ms"] = 40;
  row["facts"]["device"] = "cuda";
  EXPECT_THAT(advice(made_results({made_row(1, 200), row, alone})), Contains(HasSubstr("with sync off 40.0 ms.")));
  EXPECT_THAT(advice(made_results({made_row(1, 200), row, alone})), Not(Contains(HasSubstr("free core"))));
}

TEST(ScalingAdvice, LongCommunicationOfFewBytesIsNotTheLink) {
  ordered_json results = slow_network();
  results["rows"][1]["reduced_bytes"] = 2'500'000;
  EXPECT_THAT(advice(results), ElementsAre(testing::_, AllOf(HasSubstr("but not the link"), HasSubstr("2.5 MB"),
                                                             HasSubstr("at least 20.0 ms for them; (comm.) is 250 ms"),
                                                             Not(HasSubstr("16-bit")))));
}

TEST(ScalingAdvice, LongCommunicationOnOneHostNamesNoNetwork) {
  ordered_json results = slow_network();
  results["rows"][1]["hosts"] = 0;
  results["rows"][1]["rate"] = "";
  results["rows"][1]["facts"]["local_ranks"] = "2";
  EXPECT_THAT(advice(results), ElementsAre(testing::_, AllOf(HasSubstr("Reductions are the limit"),
                                                             Not(HasSubstr("network")), Not(HasSubstr("at least")))));
}

TEST(ScalingAdvice, HiddenCommunicationIsNoLimit) {
  EXPECT_THAT(advice(slow_network(10, 250)), Not(Contains(HasSubstr("network"))));
}

TEST(ScalingAdvice, LittleOverlapNamesASmallerBucket) {
  // Backward takes 80 ms.
  EXPECT_THAT(advice(slow_network(60, 75)),
              ElementsAre(testing::_,
                          "Reductions end after backward: 60.0 ms of 75.0 ms are exposed; "
                          "backward takes 80.0 ms. Try KOLO_BUCKET_BYTES=4M or more samples for "
                          "each rank."));
  ordered_json small = slow_network(60, 75);
  small["rows"][1]["reduced_bytes"] = 10'000'000;
  EXPECT_THAT(advice(small), Contains(HasSubstr("KOLO_BUCKET_BYTES=512K")));
}

TEST(ScalingAdvice, MeasuredBucketsAreNotSuggestedAgain) {
  ordered_json results = slow_network(60, 75);
  ordered_json row = results["rows"][1];
  row["variant"] = "bucket 4M";
  row["step_to_default"] = interval(1);
  results["rows"].push_back(row);
  EXPECT_THAT(advice(results), ElementsAre(testing::_, AllOf(HasSubstr("Reductions end after backward"),
                                                             Not(HasSubstr("KOLO_BUCKET_BYTES")))));
}

TEST(ScalingAdvice, SlowerStepsWithoutReductionsNameTheRanksThatCompete) {
  ordered_json row = with_efficiency(made_row(4, 300), 190);
  row["facts"]["local_cores"] = "2";
  const auto results = made_results({made_row(1, 190), row, sync_off_row(4, 290)});
  EXPECT_THAT(advice(results),
              ElementsAre(testing::_,
                          "The ranks compete for cores, memory or data: with sync off a step takes 290 ms; with "
                          "one rank it takes 190 ms. 4 ranks share 2 cores. Try fewer ranks or "
                          "fewer threads on a host."));
  EXPECT_THAT(advice(made_results({made_row(1, 190), row, sync_off_row(4, 195)})), Not(Contains(HasSubstr("compete"))));
}

TEST(ScalingAdvice, CompetingEmulatedHostsNameTheCoresOfTheMachine) {
  ordered_json one = made_row(1, 190);
  one["facts"]["local_cores"] = "2";
  ordered_json alone = hosts_row(4, "1gbit", 390);
  alone["variant"] = "sync off";
  const auto results = made_results({one, with_efficiency(hosts_row(4, "1gbit", 400), 190), alone});
  EXPECT_THAT(advice(results), Contains(HasSubstr("4 emulated hosts share 2 cores. Real hosts do not share cores.")));
}

TEST(ScalingAdvice, StrongScalingComparesWithAPartOfTheStepOfOneRank) {
  ordered_json row = made_row(4, 100);
  row["efficiency_to_one_rank"] = interval(0.5);
  ordered_json results = made_results({made_row(1, 200), row, sync_off_row(4, 90)});
  results["scaling"] = "strong";
  EXPECT_THAT(advice(results),
              Contains(HasSubstr("takes 90.0 ms; the step of one rank, divided by the ranks, is 50.0 ms.")));
}

TEST(ScalingAdvice, LongerBackwardNamesTheReductionsOnTheCores) {
  ordered_json row = with_efficiency(made_row(2, 250), 200);
  ordered_json alone = sync_off_row(2, 200);
  row["parts"]["backward_ms"] = 90;
  alone["parts"]["backward_ms"] = 40;
  EXPECT_THAT(advice(made_results({made_row(1, 200), row, alone})),
              ElementsAre(testing::_,
                          "Reductions slow down backward: it takes 90.0 ms; with sync off 40.0 ms. "
                          "Try a free core for each rank."));
  row["parts"]["backward_ms"] = 43;
  EXPECT_THAT(advice(made_results({made_row(1, 200), row, alone})), Not(Contains(HasSubstr("slow down"))));
}

TEST(ScalingAdvice, UnexplainedLossNamesThePartThatGrowsMost) {
  const auto results = made_results({made_row(1, 200), with_efficiency(made_row(2, 300), 200)});
  EXPECT_THAT(advice(results), ElementsAre(testing::_,
                                           "The time before the first gradient grows most with the ranks: "
                                           "240 ms; with one rank 160 ms. Look at the trace."));
}

ordered_json slow_rank(double share) {
  ordered_json row = with_efficiency(made_row(4, 300), 200);
  row["parts"]["exposed_ms"] = 60;
  row["parts"]["communication_ms"] = 100;
  row["parts"]["slowest_wait_ms"] = 50;
  row["slowest_rank"] = {{"rank", 3}, {"share_of_steps", share}};
  return made_results({made_row(1, 200), row});
}

TEST(ScalingAdvice, SlowestRankIsNamedInPlaceOfTheNetwork) {
  EXPECT_THAT(advice(slow_rank(0.9)),
              ElementsAre(testing::_,
                          "Rank 3 is last in 90 % of the steps. Waiting for it takes 50.0 ms of the "
                          "60.0 ms exposed. Check the data and the host of rank 3."));
}

TEST(ScalingAdvice, SlowestRankThatChangesIsNotNamed) {
  EXPECT_THAT(advice(slow_rank(0.3)),
              ElementsAre(testing::_, AllOf(HasSubstr("changes from step to step"), Not(HasSubstr("Rank 3")))));
}

TEST(ScalingAdvice, WaitBelowTheErrorOfTheClocksIsNoLimit) {
  ordered_json results = slow_rank(0.9);
  results["rows"][1]["warnings"] = {"(slowest) is less than the error of the clocks, 60 ms"};
  EXPECT_THAT(advice(results), Not(Contains(HasSubstr("Rank 3"))));
}

ordered_json over_infiniband(const std::string& network) {
  ordered_json row = with_efficiency(made_row(8, 400), 200);
  row["facts"]["local_ranks"] = "4";
  row["facts"]["network"] = network;
  row["parts"]["exposed_ms"] = 200;
  ordered_json results = made_results({made_row(1, 200), row});
  results["environment"]["infiniband"] = "mlx5_0 port 1: 200 Gb/sec (4X HDR)";
  return results;
}

TEST(ScalingAdvice, UnusedInfinibandNamesPortAndTransport) {
  ordered_json results = over_infiniband("tcp");
  const std::string start =
      "This host has InfiniBand (mlx5_0 port 1: 200 Gb/sec (4X HDR)), but 8 ranks exchange "
      "gradients over TCP, 200 ms exposed. ";
  EXPECT_THAT(advice(results), Contains(start + "KOLO_NETWORK=auto uses MPI only if every host has an RDMA device. "
                                                "Check /sys/class/infiniband on each."));
  results["rows"][1]["facts"]["KOLO_NETWORK"] = "tcp";
  EXPECT_THAT(advice(results),
              Contains(start + "Unset KOLO_NETWORK: kolo then uses MPI if every host has an RDMA device."));
}

TEST(ScalingAdvice, UsedOrMissingInfinibandIsNotNamed) {
  const auto named = Contains(HasSubstr("InfiniBand"));
  EXPECT_THAT(advice(over_infiniband("mpi")), Not(named));
  ordered_json without = over_infiniband("tcp");
  without["environment"].erase("infiniband");
  EXPECT_THAT(advice(without), Not(named));
  ordered_json emulated = over_infiniband("tcp");
  emulated["rows"][1]["hosts"] = 8;
  EXPECT_THAT(advice(emulated), Not(named));
  ordered_json by_nccl = over_infiniband("tcp");
  by_nccl["rows"][1]["facts"]["device"] = "cuda";
  EXPECT_THAT(advice(by_nccl), Not(named));
  by_nccl["rows"][1]["facts"]["KOLO_DEVICE_REDUCTION"] = "host";
  EXPECT_THAT(advice(by_nccl), named);
}

ordered_json ablated(double ratio) {
  ordered_json row = made_row(2, 300);
  row["variant"] = "algorithm ring";
  row["environment"] = {{"KOLO_ALGORITHM", "ring"}};
  row["step_to_default"] = interval(ratio);
  return made_results({made_row(1, 200), with_efficiency(made_row(2, 300), 200), row});
}

TEST(ScalingAdvice, FasterSettingIsNamedWithItsRatio) {
  EXPECT_THAT(advice(ablated(0.9)),
              Contains("Try KOLO_ALGORITHM=ring. In the row '2 ranks, algorithm ring' a step takes "
                       "0.900 [0.877, 0.922] of the default step."));
}

TEST(ScalingAdvice, SettingWithinNoiseIsNotNamed) {
  EXPECT_THAT(advice(ablated(0.98)), Not(Contains(HasSubstr("KOLO_ALGORITHM"))));
  ordered_json unknown = ablated(0.9);
  unknown["rows"][2]["step_to_default"]["high"] = nullptr;
  EXPECT_THAT(advice(unknown), Not(Contains(HasSubstr("KOLO_ALGORITHM"))));
}

TEST(ScalingAdvice, FasterSyncOffIsNoSetting) {
  ordered_json alone = sync_off_row(2, 200);
  alone["step_to_default"] = interval(0.5);
  alone["environment"] = {{"KOLO_SYNC", "off"}};
  EXPECT_THAT(advice(made_results({made_row(1, 200), with_efficiency(made_row(2, 400), 200), alone})),
              Not(Contains(HasSubstr("KOLO_SYNC"))));
}

TEST(ScalingAdvice, OneHostBeforeSeveralHasTheRatioToTheFastestNetwork) {
  const auto results = made_results({made_row(1, 200), with_efficiency(made_row(4, 250), 200),
                                     with_efficiency(hosts_row(4, "1gbit", 900), 200),
                                     with_efficiency(hosts_row(4, "10gbit", 500), 200)});
  EXPECT_THAT(advice(results),
              Contains("One large machine is faster than several small ones: a step of 4 ranks takes 250 ms "
                       "on one host, and 500 ms on 4 emulated hosts, 10gbit (2.00 times)."));
}

TEST(ScalingAdvice, SeveralHostsOfEqualSpeedAreNotCompared) {
  const auto results = made_results(
      {made_row(1, 200), with_efficiency(made_row(4, 500), 200), with_efficiency(hosts_row(4, "10gbit", 505), 200)});
  EXPECT_THAT(advice(results), Not(Contains(HasSubstr("One large machine"))));
}

ordered_json beside_peers(double ddp, double mpi) {
  const ordered_json row = with_efficiency(hosts_row(4, "1gbit", 900), 200);
  return made_results({made_row(1, 200), peer_row(made_row(1, 200), "ddp", "PyTorch DDP", 1.1), row,
                       peer_row(row, "ddp", "PyTorch DDP", ddp), peer_row(row, "mpi", "flat MPI", mpi)});
}

TEST(ScalingAdvice, SlowerPeersHaveTheirRatios) {
  EXPECT_EQ(advice(beside_peers(1.43, 1.7)).back(),
            "4 emulated hosts, 1gbit: kolo's step is 1.43 times as fast as PyTorch DDP and 1.70 times as fast as flat "
            "MPI.");
}

TEST(ScalingAdvice, FasterAndEqualPeersAreNamed) {
  EXPECT_EQ(advice(beside_peers(0.9, 1.01)).back(),
            "4 emulated hosts, 1gbit: PyTorch DDP is faster than kolo: its step takes 0.90 [0.88, 0.92] of kolo's. "
            "No difference beyond noise: flat MPI.");
}

TEST(ScalingAdvice, PeersWithOtherThreadsAreNotCompared) {
  ordered_json results = beside_peers(1.43, 1.7);
  results["rows"][3]["facts"]["threads"] = "8";
  EXPECT_THAT(advice(results).back(), AllOf(HasSubstr("1.70 times"), Not(HasSubstr("PyTorch DDP"))));
}

TEST(ScalingAdvice, EfficiencyFarAboveOneAsksForThreads) {
  ordered_json results = slow_network();
  results["rows"][1]["efficiency_to_one_rank"] = interval(1.6);
  EXPECT_THAT(advice(results), ElementsAre(HasSubstr("Do both rows have the same threads and load?")));
}

TEST(ScalingAdvice, PeersWithUnknownChanceAreNotCompared) {
  ordered_json results = beside_peers(1.43, 1.7);
  for (const std::size_t row : {3, 4}) results["rows"][row]["step_to_default"]["high"] = nullptr;
  EXPECT_THAT(advice(results), Not(Contains(HasSubstr("PyTorch DDP"))));
}

TEST(ScalingAdvice, WithoutPeersNoneIsNamed) {
  EXPECT_THAT(advice(slow_network()), Not(Contains(HasSubstr("as fast as"))));
}

}  // namespace
}  // namespace kolo::tools

#include "trace_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trace_files.h"
#include "trace_merge.h"

namespace kolo::tools {
namespace {

using test::FakeRank;
using test::FakeTimeline;

constexpr double kPpm = 1e-6;

std::vector<ClockPoint> points_on_a_line(std::size_t count, double drift, double seconds) {
  std::vector<ClockPoint> points;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = 1e9 * seconds * static_cast<double>(i) / static_cast<double>(count - 1);
    points.push_back({1'000'000'000 + std::llround(x), 777 + std::llround(drift * x)});
  }
  return points;
}

TEST(MeasureDrift, OfAnExactLineIsItsSlope) {
  for (const std::size_t count : {32U, 255U, 256U, 257U, 10'000U}) {
    for (const double drift : {50 * kPpm, -3 * kPpm}) {
      auto points = points_on_a_line(count, drift, 100);
      EXPECT_NEAR(measure_drift(points).value(), drift, 1e-10) << count;
    }
  }
}

// Each point, not a group: the median of the slopes itself has to stand them.
TEST(MeasureDrift, StandsAQuarterOfWrongPoints) {
  auto points = points_on_a_line(200, 50 * kPpm, 100);
  for (std::size_t i = 0; i < points.size(); i += 4) points[i].apart_ns += 80'000'000;
  EXPECT_NEAR(measure_drift(points).value(), 50 * kPpm, 1e-7);
}

TEST(MeasureDrift, OrderOfPointsHasNoEffect) {
  auto points = points_on_a_line(1000, 20 * kPpm, 60);
  std::ranges::shuffle(points, std::mt19937(3));
  EXPECT_NEAR(measure_drift(points).value(), 20 * kPpm, 1e-10);
}

TEST(MeasureDrift, IsNoneForFewPointsAShortTimeOrAnImpossibleDrift) {
  const auto drift_of = [](std::size_t count, double drift, double seconds) {
    auto points = points_on_a_line(count, drift, seconds);
    return measure_drift(points);
  };
  EXPECT_TRUE(drift_of(32, 50 * kPpm, 2.1));
  EXPECT_FALSE(drift_of(31, 50 * kPpm, 2.1));
  EXPECT_FALSE(drift_of(32, 50 * kPpm, 1.9));
  EXPECT_FALSE(drift_of(32, 2000 * kPpm, 2.1));
  EXPECT_FALSE(drift_of(32, -2000 * kPpm, 2.1));
  EXPECT_FALSE(drift_of(1000, 0, 100));
  std::vector<ClockPoint> none;
  EXPECT_FALSE(measure_drift(none));
  std::vector<ClockPoint> equal(100, ClockPoint{5, 5});
  EXPECT_FALSE(measure_drift(equal));
}

TEST(MeasureDrift, OfDelaysAloneIsNone) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::int64_t> delay(-300'000, 300'000);
    auto points = points_on_a_line(2000, 0, 60);
    for (ClockPoint& point : points) point.apart_ns += delay(random);
    EXPECT_FALSE(measure_drift(points)) << "seed " << seed;
  }
}

TEST(CommonReductions, AreOfTheSameTrackAndRoundInTheSameOrder) {
  // Two optimizers count their rounds alike: the second 0 of track 1000 is that of the second one.
  std::vector<ReductionEnd> rank_0{{1000, 0, 10}, {1001, 0, 11}, {1000, 0, 20}, {1000, 1, 30}, {1000, 3, 50}};
  std::vector<ReductionEnd> rank_1{{1001, 0, 111}, {1000, 0, 110}, {1000, 0, 125}, {1000, 2, 140}, {1000, 3, 158}};
  sort_reductions(rank_0);
  sort_reductions(rank_1);
  std::vector<ClockPoint> points;
  append_common_reductions(rank_0, rank_1, points);
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const ClockPoint& point : points) pairs.emplace_back(point.end_ns, point.apart_ns);
  EXPECT_THAT(pairs, testing::UnorderedElementsAre(std::pair(110, 100), std::pair(125, 105), std::pair(158, 108),
                                                   std::pair(111, 100)));
}

TEST(CommonReductions, ManyOfOneIdentityArePairedInOrder) {
  std::vector<ReductionEnd> rank_0;
  std::vector<ReductionEnd> rank_1;
  for (int i = 0; i < 1000; ++i) {
    rank_0.push_back({1000 + i % 2, 0, 10 * i});
    rank_1.push_back({1000 + i % 2, 0, 10 * i + 7});
  }
  sort_reductions(rank_0);
  sort_reductions(rank_1);
  std::vector<ClockPoint> points;
  append_common_reductions(rank_0, rank_1, points);
  EXPECT_EQ(points.size(), 1000U);
  EXPECT_THAT(points, testing::Each(testing::Field(&ClockPoint::apart_ns, 7)));
}

TEST(HostClock, RanksOfAHostShareOneAndOtherHostsOfItsNameDoNot) {
  std::vector<HostClock> clocks;
  const auto clock = [&](int rank, const std::string& host, std::int64_t offset, std::int64_t error) {
    TimelineHead head;
    head.rank = rank;
    head.host = host;
    head.clock_offset_ns = offset;
    head.clock_error_ns = error;
    return clock_of(head, clocks);
  };
  EXPECT_EQ(clock(0, "a", 0, 0), 0U);
  EXPECT_EQ(clock(1, "a", 0, 0), 0U);
  EXPECT_EQ(clock(2, "a", 5, 10), 1U) << "its offset was measured: not the host of rank 0";
  EXPECT_EQ(clock(3, "b", 1000, 100), 2U);
  EXPECT_EQ(clock(4, "b", 1120, 60), 2U);
  EXPECT_EQ(clock(5, "b", 5000, 100), 3U);
  EXPECT_TRUE(clocks[0].is_reference);
  EXPECT_FALSE(clocks[1].is_reference);
  EXPECT_EQ(clocks[2].offset_ns(), (1060 + 1100) / 2) << "what both allow";
  clocks[2].start_ns = 10'000;
  clocks[2].drift = 100 * kPpm;
  EXPECT_EQ(clocks[2].correct(10'000), 10'000 - 1080);
  EXPECT_EQ(clocks[2].correct(1'010'000), 1'010'000 - 1080 - 100);
}

// Five ranks on three hosts train for five minutes. Reductions end with delays, one rank in ten rounds is late.
class DriftingHosts {
 public:
  static constexpr double kStart = 2e9;  // microseconds
  static constexpr double kStep = 150'000;
  static constexpr int kSteps = 2000;
  static constexpr double kDelay = 200;
  static constexpr double kError = 20;  // of the measured offsets

  DriftingHosts() {
    std::mt19937 random(38);
    std::uniform_real_distribution<double> delay(0, kDelay);
    for (FakeTimeline& timeline : timelines_) timeline.add_track(1, "step");
    for (int step = 0; step < kSteps; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) {
        FakeTimeline& timeline = timelines_[static_cast<std::size_t>(rank)];
        const double start = kStart + kStep * step + 10 * rank;
        timeline.add_span("backward", 1, start, start + 50'000);
        for (int bucket = 0; bucket < 2; ++bucket) {
          const bool late = random() % 10 == 0;
          const double end = kStart + kStep * step + 60'000 + 5'000 * bucket + delay(random) + (late ? 40'000 : 0);
          timeline.add_reduction(bucket, static_cast<std::uint64_t>(step), start + 40'000, end);
        }
        timeline.add_span("optimizer", 1, start + 120'000, start + 140'000);
      }
    }
  }

  [[nodiscard]] MergeOptions write(const kolo::test::TemporaryFolder& folder) const {
    MergeOptions options{{}, (folder.path() / "merged").string()};
    for (std::size_t rank = kRanks; rank-- > 0;) {  // in any order
      options.files.push_back(
          folder.write("t.rank" + std::to_string(rank) + ".json", timelines_[rank].text()).string());
    }
    return options;
  }

  static constexpr int kRanks = 5;

 private:
  static FakeTimeline timeline(int rank, const std::string& host, double offset, double drift, double wrong) {
    return FakeTimeline(
        FakeRank{rank, kRanks, host, {offset, drift, kStart}, offset + wrong, host == "a" ? 0 : kError});
  }
  std::vector<FakeTimeline> timelines_{timeline(0, "a", 0, 0, 0), timeline(1, "a", 0, 0, 0),
                                       timeline(2, "b", 7e6, 50 * kPpm, 15), timeline(3, "b", 7e6, 50 * kPpm, -15),
                                       timeline(4, "c", -3e8, -30 * kPpm, kError)};
};

TEST(TraceMerge, TimesOfDriftingClocksAreRightWithinTheBound) {
  const kolo::test::TemporaryFolder folder;
  const MergeOptions options = DriftingHosts().write(folder);
  const MergeSummary summary = merge_traces(options);
  // trace_clock.h. The delays of two ranks subtracted are within kDelay; the median of a group that has stragglers may
  // be that of any other moment of the group.
  constexpr double kDuration = DriftingHosts::kStep * DriftingHosts::kSteps;
  const auto bound = [](double drift) {
    return DriftingHosts::kError + 7 * (DriftingHosts::kDelay + drift * kDuration / 256);
  };
  const double uncorrected = 30 * kPpm * kDuration;
  ASSERT_GT(uncorrected, 4 * bound(50 * kPpm)) << "the test must be able to fail";
  const auto trace = nlohmann::json::parse(test::unzipped(options.out + "/trace.json.gz"));
  for (int rank = 0; rank < DriftingHosts::kRanks; ++rank) {
    const auto spans = test::spans_of(trace, rank);
    ASSERT_EQ(spans.size(), 4U * DriftingHosts::kSteps);
    const double allowed = rank < 2 ? 0.0011 : bound(rank < 4 ? 50 * kPpm : 30 * kPpm);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const double begin = DriftingHosts::kStep * static_cast<double>(i / 4) + 10 * rank;
      const double offsets[] = {0, 40'000, 40'000, 120'000};
      ASSERT_NEAR(spans[i].at("ts").get<double>(), begin + offsets[i % 4], allowed) << "rank " << rank;
    }
  }
  ASSERT_EQ(summary.clocks.size(), 3U);
  EXPECT_FALSE(summary.clocks[0].drift);
  EXPECT_NEAR(summary.clocks[1].drift.value(), 50 * kPpm, 1 * kPpm);
  EXPECT_NEAR(summary.clocks[2].drift.value(), -30 * kPpm, 1 * kPpm);
}

TEST(TraceMerge, RanksOfOneHostAreCorrectedAlike) {
  const kolo::test::TemporaryFolder folder;
  const MergeOptions options = DriftingHosts().write(folder);
  static_cast<void>(merge_traces(options));
  const auto trace = nlohmann::json::parse(test::unzipped(options.out + "/trace.json.gz"));
  const auto rank_2 = test::spans_of(trace, 2);
  const auto rank_3 = test::spans_of(trace, 3);
  for (std::size_t i = 0; i < rank_2.size(); i += 4) {
    ASSERT_NEAR(rank_3[i].at("ts").get<double>() - rank_2[i].at("ts").get<double>(), 10, 0.01);
  }
}

// Ranks of one host whose reductions end later and later beside those of rank 0.
TEST(TraceMerge, ClockOfTheHostOfRank0IsNotTouched) {
  const kolo::test::TemporaryFolder folder;
  MergeOptions options{{}, (folder.path() / "merged").string()};
  for (int rank = 0; rank < 2; ++rank) {
    FakeTimeline timeline(FakeRank{rank, 2});
    for (int round = 0; round < 100; ++round) {
      timeline.add_reduction(0, static_cast<std::uint64_t>(round), 1e6 * round, 1e6 * round + 500 + 50 * rank * round);
    }
    options.files.push_back(folder.write(std::to_string(rank), timeline.text()).string());
  }
  const MergeSummary summary = merge_traces(options);
  EXPECT_FALSE(summary.clocks.at(0).drift);
  const auto trace = nlohmann::json::parse(test::unzipped(options.out + "/trace.json.gz"));
  EXPECT_EQ(test::spans_of(trace, 1).at(99).at("ts"), 99e6);
  EXPECT_EQ(test::spans_of(trace, 1).at(99).at("dur"), 5450.0);
}

TEST(TraceMerge, OffsetAloneIsCorrectedIfFewReductionsAreCommon) {
  const kolo::test::TemporaryFolder folder;
  MergeOptions options{{}, (folder.path() / "merged").string()};
  for (int rank = 0; rank < 2; ++rank) {
    FakeTimeline timeline(FakeRank{rank, 2, rank == 0 ? "a" : "b", {250.5 * rank, 0, 0}, 250.5 * rank, 1.0 * rank});
    for (int round = 0; round < 40; ++round) {
      const int other = rank == 1 && round > 30 ? 1000 + round : round;  // 31 are common
      timeline.add_reduction(0, static_cast<std::uint64_t>(other), 1e6 * round, 1e6 * round + 500 + 50 * rank * round);
    }
    options.files.push_back(folder.write(std::to_string(rank), timeline.text()).string());
  }
  const MergeSummary summary = merge_traces(options);
  EXPECT_FALSE(summary.clocks.at(1).drift);
  const auto trace = nlohmann::json::parse(test::unzipped(options.out + "/trace.json.gz"));
  EXPECT_EQ(test::spans_of(trace, 1).at(39).at("ts"), 39e6);
}

}  // namespace
}  // namespace kolo::tools

#include "runtime/recording.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/system_error.h"
#include "kolo/context.h"
#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace kolo::runtime {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

// An allgather of ranks that are threads. A text leaves and arrives at any time in between.
class Exchange {
 public:
  explicit Exchange(int ranks) : all_(ranks), texts_(static_cast<std::size_t>(ranks)) {}
  std::vector<std::string> gather(int rank, const std::string& mine) {
    texts_[static_cast<std::size_t>(rank)] = mine;
    all_.arrive_and_wait();
    auto texts = texts_;
    all_.arrive_and_wait();
    return texts;
  }
  [[nodiscard]] Allgather of(int rank) {
    return [this, rank](const std::string& mine) { return gather(rank, mine); };
  }

 private:
  std::barrier<> all_;
  std::vector<std::string> texts_;
};

// Clocks of hosts, over one true time that goes on by at most `step` nanoseconds at each look at a clock.
class Clocks {
 public:
  struct Setting {
    std::int64_t offset_ns = 0;
    double drift = 0;  // nanoseconds a nanosecond
  };

  Clocks(std::vector<Setting> settings, std::uint32_t seed, std::int64_t step = 1000)
      : settings_(std::move(settings)), seed_(seed), step_(step) {}

  [[nodiscard]] std::int64_t true_time() const { return true_time_.load(); }
  // At a true time.
  [[nodiscard]] std::int64_t reading(int rank, std::int64_t time) const {
    const Setting& setting = settings_[static_cast<std::size_t>(rank)];
    return time + setting.offset_ns + std::llround(setting.drift * static_cast<double>(time));
  }
  [[nodiscard]] std::int64_t offset(int rank, std::int64_t time) const {
    return reading(rank, time) - reading(0, time);
  }
  [[nodiscard]] telemetry::Recorder::Clock of(int rank) {
    return [this, rank, random = std::mt19937(seed_ + static_cast<std::uint32_t>(rank))]() mutable {
      const std::int64_t step = std::uniform_int_distribution<std::int64_t>(0, step_)(random);
      return reading(rank, true_time_.fetch_add(step) + step);
    };
  }
  void pass(std::int64_t time) { true_time_.fetch_add(time); }

 private:
  std::vector<Setting> settings_;
  std::uint32_t seed_;
  std::int64_t step_;
  std::atomic<std::int64_t> true_time_{1'000'000'000};
};

// What every rank measures, each on a host of its own.
std::vector<ClockOffset> measure(Clocks& clocks, int ranks) {
  Exchange exchange(ranks);
  std::vector<ClockOffset> found(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](int rank) {
    found[static_cast<std::size_t>(rank)] = measure_clock_offset(rank, rank == 0, exchange.of(rank), clocks.of(rank));
  });
  return found;
}

TEST(MeasureClockOffset, TrueOffsetLiesWithinTheError) {
  for (const std::int64_t step : {1, 2, 1000}) {
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
      Clocks clocks({{17, 0}, {0, 0}, {3'000'000'007, 0}, {-86'400'000'000'001, 0}}, 100 * seed, step);
      const auto found = measure(clocks, 4);
      EXPECT_EQ(found[0].offset_ns, 0);
      EXPECT_EQ(found[0].error_ns, 0);
      for (int rank = 1; rank < 4; ++rank) {
        const ClockOffset& mine = found[static_cast<std::size_t>(rank)];
        EXPECT_GE(mine.error_ns, 0);
        EXPECT_LE(std::abs(mine.offset_ns - clocks.offset(rank, 0)), mine.error_ns)
            << "rank " << rank << ", step " << step << ", seed " << seed;
      }
    }
  }
}

// The offset is that of some moment of the measurement: also if it changes by more than a message takes.
TEST(MeasureClockOffset, OffsetOfDriftingClocksIsOneOfTheMeasurement) {
  for (const double drift : {1e-5, -1e-4, 0.5, -0.3}) {
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
      Clocks clocks({{0, 0}, {5'000, drift}, {-7'000'000, -drift}}, 100 * seed);
      const std::int64_t begin = clocks.true_time();
      const auto found = measure(clocks, 3);
      const std::int64_t end = clocks.true_time();
      for (int rank = 1; rank < 3; ++rank) {
        const ClockOffset& mine = found[static_cast<std::size_t>(rank)];
        const auto [low, high] = std::minmax({clocks.offset(rank, begin), clocks.offset(rank, end)});
        EXPECT_GE(mine.error_ns, 0);
        EXPECT_GE(mine.offset_ns + mine.error_ns, low) << "drift " << drift << ", seed " << seed;
        EXPECT_LE(mine.offset_ns - mine.error_ns, high) << "drift " << drift << ", seed " << seed;
      }
    }
  }
}

// One exchange without delay is enough, whichever it is.
TEST(MeasureClockOffset, DelaysOfOtherExchangesDoNotCount) {
  constexpr std::int64_t kDelay = 1'000'000'000;
  for (int quick = 0; quick < 8; ++quick) {
    Clocks clocks({{0, 0}, {123'456, 0}}, 7);
    Exchange exchange(2);
    ClockOffset found;
    test::run_ranks(2, [&](int rank) {
      int round = 0;
      const Allgather allgather = [&](const std::string& mine) {
        static_cast<void>(exchange.gather(rank, ""));  // both have looked at their clocks: no delay of another round
        if (round != quick) clocks.pass(kDelay);
        auto texts = exchange.gather(rank, mine);
        ++round;
        return texts;
      };
      const ClockOffset mine = measure_clock_offset(rank, rank == 0, allgather, clocks.of(rank));
      if (rank == 1) found = mine;
    });
    EXPECT_LT(found.error_ns, kDelay / 1000) << "quick exchange " << quick;
    EXPECT_LE(std::abs(found.offset_ns - 123'456), found.error_ns);
  }
}

TEST(MeasureClockOffset, RankOnTheHostOfRank0HasOffsetZero) {
  Clocks clocks({{0, 0}, {500, 0}, {900'000, 0}}, 3);
  Exchange exchange(3);
  test::run_ranks(3, [&](int rank) {
    const ClockOffset mine = measure_clock_offset(rank, rank < 2, exchange.of(rank), clocks.of(rank));
    if (rank == 2) {
      EXPECT_LE(std::abs(mine.offset_ns - 900'000), mine.error_ns);
    } else {
      EXPECT_EQ(mine.offset_ns, 0);
      EXPECT_EQ(mine.error_ns, 0);
    }
  });
}

// What each rank throws if `open` does this on it; "" if nothing.
template <class E>
std::vector<std::string> errors_of(int ranks, const std::function<void(int rank)>& open) {
  Exchange exchange(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](int rank) {
    try {
      open_on_all(rank, exchange.of(rank), [&] { open(rank); });
    } catch (const E& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return errors;
}

TEST(OpenOnAll, UsageErrorOfOneRankReachesAllRanksWithItsNumber) {
  for (const std::string& error : errors_of<UsageError>(3, [](int rank) {
         if (rank == 1) throw UsageError("cannot open /x");
       })) {
    EXPECT_EQ(error, "rank 1: cannot open /x");
  }
}

TEST(OpenOnAll, ErrorsOfSeveralRanksAreTheFirstOneOnAllRanks) {
  for (const std::string& error : errors_of<UsageError>(4, [](int rank) {
         if (rank >= 2) throw UsageError("cannot open " + std::to_string(rank));
       })) {
    EXPECT_EQ(error, "rank 2: cannot open 2");
  }
}

TEST(OpenOnAll, OtherErrorIsBackendErrorOnAllRanks) {
  for (const std::string& error : errors_of<BackendError>(2, [](int rank) {
         if (rank == 1) throw std::runtime_error("no thread");
       })) {
    EXPECT_EQ(error, "rank 1: no thread");
  }
}

TEST(OpenOnAll, WithoutErrorsOpensOnAllRanks) {
  std::atomic<int> opened{0};
  for (const std::string& error : errors_of<UsageError>(3, [&](int) { ++opened; })) EXPECT_EQ(error, "");
  EXPECT_EQ(opened, 3);
}

TEST(FileOfRank, HasTheRankBeforeTheEnding) {
  EXPECT_EQ(file_of_rank("run/steps", 3, ".jsonl"), "run/steps.rank3.jsonl");
  EXPECT_EQ(file_of_rank("a.b", 12, ".json"), "a.b.rank12.json");
}

TEST(RunFacts, HasThePlacementAndSettingsThatAreNotTheDefault) {
  Placement placement;
  placement.rank = 2;
  placement.size = 4;
  placement.local_size = 3;
  placement.local_cores = 8;
  placement.host = "node1";
  Config config;
  config.sync = false;
  config.algorithm = Algorithm::ring;
  const telemetry::RunFacts facts = run_facts(placement, config, {250, 3});
  EXPECT_EQ(facts.rank, 2);
  EXPECT_EQ(facts.size, 4);
  EXPECT_EQ(facts.host, "node1");
  EXPECT_EQ(facts.clock_offset_ns, 250);
  EXPECT_EQ(facts.clock_error_ns, 3);
  EXPECT_THAT(facts.facts, AllOf(Contains(Pair("KOLO_SYNC", "off")), Contains(Pair("KOLO_ALGORITHM", "ring")),
                                 Contains(Pair("local_ranks", "3")), Contains(Pair("local_cores", "8"))));
  EXPECT_THAT(facts.facts, Not(Contains(Pair("KOLO_OVERLAP", testing::_))));
}

// Ranks that are threads, with files in a folder.
struct Ranks {
  explicit Ranks(const std::vector<int>& hosts, Config config = {}) {
    config.log_sink = [](LogLevel, std::string_view) {};
    contexts = Context::create_local(hosts, config);
  }
  void run(const std::function<void(Context&)>& body) {
    test::run_ranks(static_cast<int>(contexts.size()),
                    [&](int rank) { body(*contexts[static_cast<std::size_t>(rank)]); });
  }
  std::vector<std::unique_ptr<Context>> contexts;
};

TEST(StartTimeline, FailureOfOneRankLeavesNoTimelineOnAnyRank) {
  const test::TemporaryFolder folder;
  const std::string start = (folder.path() / "trace").string();
  std::filesystem::create_directory(start + ".rank1.json");  // cannot be a file too
  Ranks ranks({0, 1});
  ranks.run([&](Context& context) {
    try {
      context.start_timeline(start);
      ADD_FAILURE() << "no error on rank " << context.rank();
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("rank 1: "), HasSubstr(start + ".rank1.json"), HasSubstr(base::errno_text(EISDIR))));
    }
    context.start_timeline(start + "2");
    context.stop_timeline();
  });
}

TEST(StartTimeline, SecondTimelineIsUsageErrorAndTheFirstGoesOn) {
  const test::TemporaryFolder folder;
  Ranks ranks({0, 0});
  ranks.run([&](Context& context) {
    context.start_timeline((folder.path() / "first").string());
    EXPECT_THROW(context.start_timeline((folder.path() / "second").string()), UsageError);
    { const TimelineRange range(context, "data wait"); }
    EXPECT_EQ(context.counters().at("timeline_events"), 1U);
    context.stop_timeline();
    context.stop_timeline();
    { const TimelineRange range(context, "data wait"); }
    EXPECT_EQ(context.counters().at("timeline_events"), 1U);
  });
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "second.rank0.json"));
}

TEST(StartTimeline, AfterShutdownIsUsageError) {
  const test::TemporaryFolder folder;
  Ranks ranks({0});
  ranks.contexts[0]->shutdown();
  EXPECT_THROW(ranks.contexts[0]->start_timeline((folder.path() / "trace").string()), UsageError);
  ranks.contexts[0]->stop_timeline();
}

TEST(StepLogSetting, FileThatCannotBeOpenedIsUsageErrorWithRankAndPath) {
  const test::TemporaryFolder folder;
  Config config;
  config.step_log = (folder.path() / "steps").string();
  std::filesystem::create_directory(config.step_log + ".rank1.jsonl");
  try {
    Ranks ranks({0, 0}, config);
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1: "), HasSubstr(config.step_log + ".rank1.jsonl")));
  }
}

// As a binding does it, without LibTorch: four gradients in buckets of their own.
TEST(StepLogSetting, RoundsOfAReducerAreRecordedOnAllRanks) {
  constexpr int kSteps = 20;
  constexpr std::size_t kGradients = 4, kFloats = 256;
  for (const std::vector<int>& hosts : std::vector<std::vector<int>>{{0, 0}, {0, 1}}) {
    const test::TemporaryFolder folder;
    Config config;
    config.step_log = (folder.path() / "steps").string();
    config.timeline = (folder.path() / "trace").string();
    Ranks ranks(hosts, config);
    ranks.run([&](Context& context) {
      std::vector<GradientInfo> table;
      for (std::size_t i = 0; i < kGradients; ++i) table.emplace_back().sizes = {kFloats};
      for (std::size_t i = 0; i < kGradients; ++i) table[i].name = std::to_string(i);
      ReducerOptions options;
      options.bucket_bytes = 1;
      const auto reducer = context.engine().make_reducer(table, options);
      StepRecorder& recorder = context.engine().step_recorder();
      std::vector<std::vector<float>> gradients(kGradients, std::vector<float>(kFloats));
      std::vector<std::uint64_t> passes(kGradients);
      for (int step = 0; step < kSteps; ++step) {
        for (std::size_t i = 0; i < kGradients; ++i) {
          std::ranges::fill(gradients[i], static_cast<float>(context.rank() + 1));
          recorder.gradient_computed(passes[i], {});
          reducer->contribute(i, gradients[i].data());
        }
        {
          const RecordedPart part(recorder, StepPart::synchronize, {});
          reducer->finish();
        }
        recorder.end_step({});
      }
    });
    for (const auto& context : ranks.contexts) context->shutdown();
    for (int rank = 0; rank < 2; ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank) + ", last host " + std::to_string(hosts.back()));
      std::ifstream log(file_of_rank(config.step_log, rank, ".jsonl"));
      std::string line;
      std::getline(log, line);
      EXPECT_EQ(nlohmann::json::parse(line).at("rank"), rank);
      for (int step = 1; step <= kSteps; ++step) {
        std::getline(log, line);
        const auto parsed = nlohmann::json::parse(line);
        EXPECT_EQ(parsed.at("step"), step);
        EXPECT_EQ(parsed.at("reductions"), kGradients) << line;
        EXPECT_EQ(parsed.at("reduced_bytes"), kGradients * kFloats * sizeof(float)) << line;
        EXPECT_GT(parsed.at("backward_us"), 0.0) << line;
        EXPECT_GT(parsed.at("communication_us"), 0.0) << line;
        EXPECT_LE(parsed.at("exposed_us"), parsed.at("communication_us")) << line;
        EXPECT_LT(parsed.at("communication_us").get<double>(),
                  parsed.at("step_us").get<double>() - parsed.at("before_first_gradient_us").get<double>() + 0.001)
            << line;
      }
      std::ifstream timeline(file_of_rank(config.timeline, rank, ".json"));
      const auto trace = nlohmann::json::parse(timeline);
      EXPECT_EQ(std::ranges::count(trace, "reduction", [](const auto& event) { return event.at("name"); }),
                static_cast<std::ptrdiff_t>(kSteps * kGradients));
    }
  }
}

}  // namespace
}  // namespace kolo::runtime

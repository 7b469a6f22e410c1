#include "telemetry/timeline.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kolo/error.h"
#include "support/sanitizers.h"
#include "support/temporary_folder.h"

namespace kolo::telemetry {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Written {
  Timeline::Warn warn() {
    return [this](const std::string& line) { warnings.push_back(line); };
  }
  // Complete JSON, or an exception.
  [[nodiscard]] json read() const {
    std::ifstream file(path);
    return json::parse(file);
  }
  test::TemporaryFolder folder;
  std::string path = (folder.path() / "trace.rank3.json").string();
  Counters counters;
  std::vector<std::string> warnings;
};

RunFacts facts_of_rank_3() {
  RunFacts facts;
  facts.rank = 3;
  facts.size = 4;
  facts.host = "node7";
  facts.clock_offset_ns = -2'500;
  return facts;
}

TimelineEvent event_of(const char* name, std::int64_t begin, std::int64_t end) {
  TimelineEvent event;
  event.name = name;
  event.begin_ns = begin;
  event.end_ns = end;
  return event;
}

std::vector<json> with_phase(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : trace) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

// The name of each track that has one.
std::map<std::uint64_t, std::string> tracks_of(const json& trace) {
  std::map<std::uint64_t, std::string> tracks;
  for (const json& event : with_phase(trace, "M")) {
    if (event.at("name") != "thread_name") continue;
    const auto number = event.at("tid").get<std::uint64_t>();
    EXPECT_TRUE(tracks.emplace(number, event.at("args").at("name")).second) << "track " << number << " is named twice";
  }
  return tracks;
}

TEST(Timeline, WithoutEventsIsCompleteJsonWithTheRank) {
  Written written;
  { const Timeline timeline(written.path, facts_of_rank_3(), written.counters, written.warn()); }
  const json trace = written.read();
  ASSERT_THAT(trace, SizeIs(3));
  EXPECT_EQ(trace[0].at("name"), "kolo");
  EXPECT_EQ(trace[0].at("args").at("kind"), "timeline");
  EXPECT_EQ(trace[0].at("args").at("rank"), 3);
  EXPECT_EQ(trace[0].at("args").at("host"), "node7");
  EXPECT_EQ(trace[0].at("args").at("clock_offset_us"), -2.5);
  EXPECT_EQ(trace[1].at("name"), "process_name");
  EXPECT_EQ(trace[1].at("args").at("name"), "rank 3");
  for (const json& event : trace) EXPECT_EQ(event.at("pid"), 3);
  EXPECT_THAT(written.warnings, IsEmpty());
}

TEST(Timeline, EventHasItsTimesBytesAndAlgorithm) {
  Written written;
  {
    Timeline timeline(written.path, facts_of_rank_3(), written.counters, written.warn());
    TimelineEvent reduction = event_of("reduction", 1'234'567, 2'000'000);
    reduction.algorithm = "ring";
    reduction.bytes = 4096;
    reduction.round = 17;
    reduction.track = kFirstBucketTrack + 2;
    timeline.add(reduction);
    TimelineEvent phase = event_of("backward", 1'000, 1'001);
    phase.track = kPhaseTrack;
    timeline.add(phase);
    TimelineEvent pack = event_of("pack", 5'000, 5'000);
    pack.bytes = 40;
    timeline.add(pack);
  }
  const auto events = with_phase(written.read(), "X");
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].at("name"), "reduction");
  EXPECT_EQ(events[0].at("pid"), 3);
  EXPECT_EQ(events[0].at("ts"), 1234.567);
  EXPECT_EQ(events[0].at("dur"), 765.433);
  EXPECT_EQ(events[0].at("args"), (json{{"bytes", 4096}, {"round", 17}, {"algorithm", "ring"}}));
  EXPECT_EQ(events[1].at("ts"), 1.0);
  EXPECT_EQ(events[1].at("dur"), 0.001);
  EXPECT_FALSE(events[1].contains("args"));
  EXPECT_EQ(events[2].at("dur"), 0.0);
  EXPECT_EQ(events[2].at("args"), (json{{"bytes", 40}}));
}

TEST(Timeline, EventsOfSeveralThreadsAreOnTracksOfTheirOwn) {
  constexpr int kThreads = 4;
  constexpr int kEvents = 1000;
  constexpr std::array<const char*, kThreads> kNames{"zero", "one", "two", "three"};
  Written written;
  {
    Timeline timeline(written.path, facts_of_rank_3(), written.counters, written.warn());
    std::vector<std::thread> threads;
    for (const char* const name : kNames) {
      threads.emplace_back([&timeline, name] {
        for (int i = 0; i < kEvents; ++i) timeline.add(event_of(name, 10 * i, 10 * i + 5));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const json trace = written.read();
  const auto tracks = tracks_of(trace);
  EXPECT_THAT(tracks, SizeIs(kThreads));
  std::map<std::string, std::set<std::uint64_t>> tracks_of_name;
  std::map<std::string, double> next_begin;  // events of a thread keep their order
  for (const json& event : with_phase(trace, "X")) {
    const std::string name = event.at("name");
    const auto track = event.at("tid").get<std::uint64_t>();
    tracks_of_name[name].insert(track);
    EXPECT_TRUE(tracks.contains(track));
    EXPECT_NEAR(event.at("ts").get<double>(), next_begin[name], 1e-6);
    next_begin[name] += 0.01;
  }
  std::set<std::uint64_t> all;
  for (const char* const name : kNames) {
    EXPECT_THAT(tracks_of_name[name], SizeIs(1)) << name;
    EXPECT_NEAR(next_begin[name], 0.01 * kEvents, 1e-6) << name;
    all.insert(tracks_of_name[name].begin(), tracks_of_name[name].end());
  }
  EXPECT_THAT(all, SizeIs(kThreads)) << "no two threads share a track";
}

TEST(Timeline, TracksOfStepBucketsAndThreadsHaveNames) {
  Written written;
  {
    Timeline timeline(written.path, facts_of_rank_3(), written.counters, written.warn());
    for (const std::uint32_t track : {kPhaseTrack, kFirstBucketTrack, kFirstBucketTrack + 12, kThreadTrack}) {
      for (int i = 0; i < 2; ++i) {
        TimelineEvent event = event_of("event", i, i + 1);
        event.track = track;
        timeline.add(event);
      }
    }
  }
  std::vector<std::string> names;
  for (const auto& [track, name] : tracks_of(written.read())) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("step", "bucket 0", "bucket 12", "thread " + std::to_string(::gettid())));
}

TEST(Timeline, TextThatIsNotUtf8OrHasQuotesIsValidJson) {
  Written written;
  RunFacts facts = facts_of_rank_3();
  facts.host = "no\"de\xff";
  facts.facts["na\"me"] = "va\\lue\xc3";
  {
    Timeline timeline(written.path, facts, written.counters, written.warn());
    timeline.add(event_of("wait for \"train\" \\ \n", 0, 1));
    timeline.add(event_of("\xff", 0, 1));
    timeline.add(event_of("données", 0, 1));
  }
  const json trace = written.read();
  EXPECT_EQ(trace[0].at("args").at("host"), "no\"de\xEF\xBF\xBD");
  EXPECT_EQ(trace[0].at("args").at("facts").at("na\"me"), "va\\lue\xEF\xBF\xBD");
  const auto events = with_phase(trace, "X");
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].at("name"), "wait for \"train\" \\ \n");
  EXPECT_EQ(events[1].at("name"), "\xEF\xBF\xBD");
  EXPECT_EQ(events[2].at("name"), "données");
}

TEST(Timeline, FileThatExistsIsReplaced) {
  Written written;
  written.folder.write("trace.rank3.json", std::string(100'000, 'x'));
  { const Timeline timeline(written.path, facts_of_rank_3(), written.counters, written.warn()); }
  EXPECT_THAT(written.read(), SizeIs(3));
}

TEST(Timeline, FileThatCannotBeCreatedIsUsageErrorWithPathAndReason) {
  Written written;
  const std::string path = (written.folder.path() / "missing" / "trace.rank3.json").string();
  try {
    const Timeline timeline(path, facts_of_rank_3(), written.counters, written.warn());
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("timeline"), HasSubstr(path), HasSubstr(std::strerror(ENOENT))));
  }
}

TEST(Timeline, FullDiskIsOneWarningAndCountsDroppedEvents) {
  Written written;
  {
    Timeline timeline("/dev/full", facts_of_rank_3(), written.counters, written.warn());
    for (int i = 0; i < 10'000; ++i) timeline.add(event_of("event", i, i + 1));  // wakes the writer before the end
  }
  EXPECT_THAT(written.warnings, ElementsAre(AllOf(HasSubstr("timeline"), HasSubstr("/dev/full"),
                                                  HasSubstr(std::strerror(ENOSPC)), HasSubstr("Training continues"))));
  EXPECT_EQ(written.counters.timeline_dropped.value(), 10'000U);
}

TEST(Timeline, FullDiskWithoutEventsIsOneWarning) {
  Written written;
  { const Timeline timeline("/dev/full", facts_of_rank_3(), written.counters, written.warn()); }
  EXPECT_THAT(written.warnings, SizeIs(1));
  EXPECT_EQ(written.counters.timeline_dropped.value(), 0U);
}

// Nothing reads the pipe, so the writer waits and the queue reaches its bound.
TEST(Timeline, EventsThatTheDiskIsTooSlowForAreDroppedAndCounted) {
  if (test::kSanitized) GTEST_SKIP() << "millions of events";
  constexpr std::uint64_t kEvents = 2'200'000;  // the writer holds at most 2^20, and the queue as many
  Written written;
  ASSERT_EQ(::mkfifo(written.path.c_str(), 0600), 0);
  const int pipe = ::open(written.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(pipe, 0);
  std::uint64_t found = 0;
  std::string end;
  std::thread reader;
  {
    Timeline timeline(written.path, facts_of_rank_3(), written.counters, written.warn());
    for (std::uint64_t i = 0; i < kEvents; ++i) timeline.add(event_of("event", 0, 1));
    EXPECT_GT(written.counters.timeline_dropped.value(), 0U);
    ASSERT_EQ(::fcntl(pipe, F_SETFL, 0), 0);  // from now on reading waits
    reader = std::thread([&] {
      std::vector<char> block(1 << 16);
      for (ssize_t size = 0; (size = ::read(pipe, block.data(), block.size())) > 0;) {
        const std::string_view text(block.data(), static_cast<std::size_t>(size));
        found += static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
        end = (end + std::string(text)).substr(std::max<std::size_t>(end.size() + text.size(), 3) - 3);
      }
    });
  }
  reader.join();
  ::close(pipe);
  constexpr std::uint64_t kOtherLines = 1 + 3 + 1 + 1;  // "[", three of metadata, the thread's name, "]"
  EXPECT_EQ(found - kOtherLines + written.counters.timeline_dropped.value(), kEvents);
  EXPECT_EQ(end, "\n]\n");
  EXPECT_THAT(written.warnings, IsEmpty());
}

}  // namespace
}  // namespace kolo::telemetry

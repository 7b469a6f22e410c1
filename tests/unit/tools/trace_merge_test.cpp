#include "trace_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"
#include "trace_files.h"

namespace kolo::tools {
namespace {

using kolo::test::TemporaryFolder;
using test::FakeRank;
using test::FakeTimeline;
using testing::AllOf;
using testing::HasSubstr;

// A step with overlapping reductions, and whatever else kolo may write.
FakeTimeline step_of(int rank, int size) {
  FakeTimeline timeline(FakeRank{rank, size});
  timeline.add_track(1, "step");
  timeline.add_track(1000, "bucket 0");
  timeline.add_span("before first gradient", 1, 1000.125, 1100.5);
  timeline.add_span("pack", 16777300, 1110.001, 1110.401, R"(,"args":{"bytes":8})");
  timeline.add_reduction(0, 0, 1120, 1180.75);
  timeline.add_span("backward", 1, 1100.5, 1150.3);
  timeline.add_span("exposed", 1, 1150.3, 1190.7);
  timeline.add_reduction(3, 0, 1130, 1190.6);
  timeline.add_span("optimizer", 1, 1190.7, 1191.1);
  timeline.add_span("other", 1, 1191.1, 1191.2);
  timeline.add_span(R"(data \"wait\" \\ ü)", 16777300, 1000.5, 1001.5);
  return timeline;
}

class TraceMergeTest : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& text) {
    options_.files.push_back(folder_.write(name, text).string());
  }
  std::string error_of_merge() {
    try {
      static_cast<void>(merge_traces(options_));
    } catch (const UsageError& error) {
      EXPECT_FALSE(std::filesystem::exists(options_.out)) << "an error leaves nothing";
      return error.what();
    }
    return "no error";
  }
  nlohmann::json merged() { return nlohmann::json::parse(test::unzipped(options_.out + "/trace.json.gz")); }
  nlohmann::json trace_of(int rank) {
    return nlohmann::json::parse(test::text_of(options_.out + "/ranks/rank" + std::to_string(rank) + ".json"));
  }

  TemporaryFolder folder_;
  MergeOptions options_{{}, (folder_.path() / "merged").string()};
};

TEST_F(TraceMergeTest, OrderAndValuesOfEventsSurvive) {
  std::vector<nlohmann::json> inputs;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string text = step_of(rank, 2).text();
    add("t.rank" + std::to_string(rank) + ".json", text);
    inputs.push_back({{"traceEvents", nlohmann::json::parse(text)}});
  }
  const MergeSummary summary = merge_traces(options_);
  EXPECT_EQ(summary.origin_ns, 1'000'125);
  const nlohmann::json trace = merged();
  for (int rank = 0; rank < 2; ++rank) {
    const auto before = test::spans_of(inputs[static_cast<std::size_t>(rank)], rank);
    const auto after = test::spans_of(trace, rank);
    ASSERT_EQ(before.size(), 9U);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      nlohmann::json expected = before[i];
      expected["ts"] = expected["ts"].get<double>() - 1000.125;
      EXPECT_NEAR(after[i].at("ts").get<double>(), expected["ts"].get<double>(), 1e-9);
      expected["ts"] = after[i].at("ts");
      EXPECT_EQ(after[i], expected);
    }
    EXPECT_EQ(summary.ranks.at(static_cast<std::size_t>(rank)).events, 9U);
  }
  EXPECT_EQ(trace.at("otherData").at("ranks").at(1).at("facts").at("KOLO_OVERLAP"), "off");
}

TEST_F(TraceMergeTest, RanksAreProcessesInOrderAndTracksHaveNames) {
  for (const int rank : {2, 0, 1}) add(std::to_string(rank), step_of(rank, 3).text());
  static_cast<void>(merge_traces(options_));
  std::vector<std::string> names;
  const nlohmann::json trace = merged();
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") names.push_back(event.at("name").get<std::string>() + " " + event.at("args").dump());
  }
  ASSERT_EQ(names.size(), 18U);
  EXPECT_EQ(names[0], R"(process_name {"name":"rank 0 on node0"})");
  EXPECT_EQ(names[1], R"(process_sort_index {"sort_index":0})");
  EXPECT_EQ(names[2], R"(thread_name {"name":"step"})");
  EXPECT_EQ(names[3], R"(thread_sort_index {"sort_index":1})");
  EXPECT_EQ(names[4], R"(thread_name {"name":"bucket 0"})");
  EXPECT_EQ(names[13], R"(process_sort_index {"sort_index":2})");
}

// The rules of HolisticTraceAnalysis 0.5.0: trace_format.h.
TEST_F(TraceMergeTest, RankFileHasTheRankAndKernelsOnStreams) {
  for (int rank = 0; rank < 2; ++rank) add(std::to_string(rank), step_of(rank, 2).text());
  static_cast<void>(merge_traces(options_));
  const std::string text = test::text_of(options_.out + "/ranks/rank1.json");
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("\"rank\": 1,")) << "the blank counts";
  const nlohmann::json trace = trace_of(1);
  EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 2);
  std::vector<std::string> lines;
  for (const nlohmann::json& event : test::spans_of(trace, 1)) {
    EXPECT_TRUE(event.at("ts").is_number_integer() && event.at("dur").is_number_integer());
    lines.push_back(event.at("name").get<std::string>() + " " + event.at("cat").get<std::string>() + " " +
                    (event.contains("args") ? std::to_string(event["args"].value("stream", -1)) : "-1") + " " +
                    event.at("ts").dump() + "+" + event.at("dur").dump());
  }
  // Ends that meet still do: 1150.3 is 150.175 after the first event.
  EXPECT_THAT(lines, testing::ElementsAre("before first gradient kernel 1 0+100", "pack cpu_op -1 110+0",
                                          "ncclKernel_direct kernel 2 120+61", "backward kernel 1 100+50",
                                          "exposed user_annotation -1 150+41", "ncclKernel_direct kernel 5 130+60",
                                          "optimizer kernel 1 191+0", "other user_annotation -1 191+0",
                                          "data \"wait\" \\ ü cpu_op -1 0+1"));
  for (const nlohmann::json& event : trace.at("traceEvents")) EXPECT_TRUE(event.at("ts").is_number_integer());
}

TEST_F(TraceMergeTest, TimelineWithoutEventsIsMerged) {
  add("0", FakeTimeline(FakeRank{0, 2}).text());
  add("1", step_of(1, 2).text());
  static_cast<void>(merge_traces(options_));
  EXPECT_EQ(test::spans_of(merged(), 0).size(), 0U);
  EXPECT_EQ(test::spans_of(merged(), 1).size(), 9U);
  EXPECT_EQ(test::spans_of(trace_of(1), 1).size(), 9U);
}

TEST_F(TraceMergeTest, FilesThatAreNoTimelinesAreNamed) {
  const std::string good = step_of(0, 2).text();
  const std::string t = (folder_.path() / "t").string();
  const auto error_with = [&](const std::string& text) {
    options_.files = {folder_.write("good", good).string(), folder_.write("t", text).string()};
    return error_of_merge();
  };
  EXPECT_THAT(error_with(""), HasSubstr(t + " is empty: the rank was killed"));
  EXPECT_THAT(error_with("{\"kind\":\"step_log\"}\n"), HasSubstr(t + ":1: not a timeline of kolo"));
  EXPECT_THAT(error_with("[\n{\"name\":\"x\"},\n"), HasSubstr(t + ":2: not the head of a timeline of kolo"));
  EXPECT_THAT(error_with("[\n"), HasSubstr(t + ":1: the head is missing"));
  EXPECT_THAT(error_with(good.substr(0, 40)), HasSubstr(t + ":2: the head is cut off"));
  EXPECT_THAT(error_with(std::string(2 << 20, 'x')), HasSubstr(t + ":1: a line of more than 256 KiB"));
  EXPECT_THAT(error_with(FakeTimeline(FakeRank{2, 2}).text()), HasSubstr(t + ":2: the head is damaged: rank 2 of 2"));
  EXPECT_THAT(error_with(FakeTimeline(FakeRank{.rank = 1, .size = 2, .measured_offset_us = 1e300}).text()),
              HasSubstr(t + ":2: not the head"));
  options_.files = {folder_.path().string()};
  EXPECT_THAT(error_of_merge(), HasSubstr("is a folder"));
  options_.files = {t + "none"};
  EXPECT_THAT(error_of_merge(),
              AllOf(HasSubstr("cannot open " + t + "none: No such file"), HasSubstr("KOLO_TIMELINE")));
}

TEST_F(TraceMergeTest, DamagedLinesAreNamed) {
  const auto error_with = [&](const std::string& line) {
    FakeTimeline timeline(FakeRank{0, 1});
    timeline.add_span("a", 1, 1, 2);
    timeline.add_line(line);
    timeline.add_span("b", 1, 2, 3);
    options_.files = {folder_.write("t", timeline.text()).string()};
    options_.partial = true;  // which takes files that are cut off, but none that is damaged
    return error_of_merge();
  };
  const std::string place = (folder_.path() / "t:6: ").string();
  const std::string span = R"({"name":"x","ph":"X","tid":1,)";
  EXPECT_THAT(error_with(span + R"("ts":1,"dur":nan})"), HasSubstr(place + "not valid JSON"));
  EXPECT_THAT(error_with(span + R"("ts":1,"dur":-1})"), HasSubstr(place + "dur -1.000 is negative"));
  EXPECT_THAT(error_with(span + R"("ts":1e300,"dur":1})"), HasSubstr(place + "ts 1e300 is not a time"));
  EXPECT_THAT(error_with("null"), HasSubstr(place + "not an event"));
  EXPECT_THAT(error_with("]\n["), HasSubstr(place + "`]`"));
}

TEST_F(TraceMergeTest, TwoRunsInOneFileAreRefused) {
  add("t", step_of(0, 1).text() + step_of(0, 1).text());
  EXPECT_THAT(error_of_merge(), HasSubstr("text behind the end of the timeline"));
}

TEST_F(TraceMergeTest, RanksOfOtherJobsAndMissingRanksAreNamed) {
  add("a", step_of(0, 4).text());
  add("b", step_of(2, 4).text());
  EXPECT_THAT(error_of_merge(),
              AllOf(HasSubstr("no timeline of ranks 1, 3: the job had 4 ranks"), HasSubstr("--partial")));
  add("c", step_of(2, 4).text());
  EXPECT_THAT(error_of_merge(), AllOf(HasSubstr("/b and "), HasSubstr("/c are both of rank 2")));
  add("d", step_of(1, 8).text());
  EXPECT_THAT(error_of_merge(), AllOf(HasSubstr("/a is of 4 ranks"), HasSubstr("/d of 8")));
}

TEST_F(TraceMergeTest, MissingRanksAreAllowedWithPartial) {
  add("b", step_of(1, 4).text());
  add("d", step_of(3, 4).text());
  options_.partial = true;
  EXPECT_THAT(merge_traces(options_).missing, testing::ElementsAre(0, 2));
  EXPECT_EQ(test::spans_of(merged(), 3).size(), 9U);
}

// Cut in every line, and at every byte of the last two, as by SIGKILL or a full disk.
TEST_F(TraceMergeTest, CutOffTimelineIsRefusedAndMergedWithPartial) {
  const std::string whole = step_of(0, 1).text();
  const std::size_t head = whole.find("\n{\"name\":\"process_name\"");
  const std::size_t end = whole.size() - std::string("\n]\n").size();
  for (std::size_t size = head; size <= end; size += size + 200 < end ? 41 : 1) {
    const std::string text = whole.substr(0, size);
    options_.files = {folder_.write("t", text).string()};
    options_.partial = false;
    ASSERT_THAT(error_of_merge(), AllOf(HasSubstr("the rank was killed"), HasSubstr("--partial"))) << text;
    options_.partial = true;
    const MergeSummary summary = merge_traces(options_);
    std::uint64_t complete = 0;  // spans up to their closing brace
    for (std::size_t at = whole.find("\"ph\":\"X\""); at < size; at = whole.find("\"ph\":\"X\"", at + 1)) {
      if (std::min(whole.find(",\n", at), end) <= size) ++complete;
    }
    ASSERT_EQ(summary.ranks.at(0).events, complete) << text;
    ASSERT_FALSE(summary.ranks.at(0).is_complete);
    ASSERT_EQ(test::spans_of(merged(), 0).size(), complete);
    std::filesystem::remove_all(options_.out);
  }
}

TEST_F(TraceMergeTest, OutputFolderMustBeNewOrEmpty) {
  add("0", step_of(0, 1).text());
  options_.out = folder_.path().string();
  EXPECT_THROW(static_cast<void>(merge_traces(options_)), UsageError);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "0")) << "nothing of the user is removed";
  options_.out = (folder_.path() / "0").string();
  EXPECT_THROW(static_cast<void>(merge_traces(options_)), UsageError);
  options_.out = "/proc/none/merged";
  EXPECT_THAT(error_of_merge(), HasSubstr("cannot create --out /proc/none/merged"));
  options_.out = (folder_.path() / "new/er").string();
  EXPECT_NO_THROW(static_cast<void>(merge_traces(options_)));
  options_.out = (folder_.path() / "empty").string();
  std::filesystem::create_directory(options_.out);
  EXPECT_NO_THROW(static_cast<void>(merge_traces(options_)));
}

TEST_F(TraceMergeTest, EmptyOutputFolderIsEmptyAfterAnError) {
  add("0", step_of(0, 1).text() + "x");
  std::filesystem::create_directory(options_.out);
  EXPECT_THROW(static_cast<void>(merge_traces(options_)), UsageError);
  EXPECT_TRUE(std::filesystem::is_empty(options_.out));
}

}  // namespace
}  // namespace kolo::tools

#include "telemetry/recorder.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"

namespace kolo::telemetry {
namespace {

using nlohmann::json;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

// A recorder whose clock is a number, in microseconds.
struct Recording {
  std::unique_ptr<StepLog> log() { return std::make_unique<StepLog>(log_path, RunFacts{}, warn()); }
  std::unique_ptr<Timeline> timeline(const std::string& name = "trace.json") {
    return std::make_unique<Timeline>((folder.path() / name).string(), RunFacts{}, counters, warn());
  }
  std::function<void(const std::string&)> warn() {
    return [](const std::string& line) { ADD_FAILURE() << line; };
  }
  void at(std::int64_t microseconds) { now_ns = 1000 * microseconds; }
  [[nodiscard]] json head() const { return json::parse(lines().at(0)); }
  [[nodiscard]] std::vector<json> steps() const {
    std::vector<json> steps;
    for (const auto& line : lines()) {
      const json parsed = json::parse(line);
      if (parsed.at("kind") == "step") steps.push_back(parsed);
    }
    return steps;
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::ifstream file(log_path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  // The spans of a complete trace.
  [[nodiscard]] std::vector<json> spans(const std::string& name = "trace.json") const {
    std::vector<json> spans;
    std::ifstream file(folder.path() / name);
    for (const json& event : json::parse(file)) {
      if (event.at("ph") == "X") spans.push_back(event);
    }
    return spans;
  }

  test::TemporaryFolder folder;
  std::string log_path = (folder.path() / "steps.jsonl").string();
  Counters counters;
  std::atomic<std::int64_t> now_ns{0};
  std::atomic<int> looks{0};
  Recorder recorder{counters, [this] {
                      ++looks;
                      return now_ns.load();
                    }};
};

void make_every_mark(Recorder& recorder) {
  std::uint64_t pass = 0;
  recorder.gradient_computed(pass, {});
  recorder.describe("name", "value");
  recorder.reduction_began(8);
  {
    const RecordedPart part(recorder, StepPart::synchronize, {});
    const RecordedWait wait(recorder);
  }
  recorder.reduction_ended();
  { const RecordedPart part(recorder, StepPart::update, {}); }
  { const Span span(recorder, "span", 8); }
  recorder.add(TimelineEvent{});
  recorder.end_step({});
  recorder.abandon_step();
}

TEST(Recorder, MarksHaveNoEffectWhileOff) {
  Recording run;
  make_every_mark(run.recorder);
  EXPECT_FALSE(run.recorder.is_on());
  EXPECT_FALSE(run.recorder.has_timeline());
  EXPECT_EQ(run.looks, 0) << "no look at the clock";
  EXPECT_THAT(run.counters.snapshot(), Each(Pair(testing::_, 0U)));
  run.recorder.stop_timeline();
  run.recorder.stop();
  Recorder without_counters;
  make_every_mark(without_counters);
  EXPECT_FALSE(without_counters.is_on());
}

TEST(Recorder, StepLogHasTimesOfTheGivenClock) {
  Recording run;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  run.at(100);
  run.recorder.start_step_log(run.log());
  EXPECT_TRUE(run.recorder.is_on());
  run.recorder.describe("libtorch", "2.11.0");
  run.at(140);
  run.recorder.gradient_computed(first, {});
  run.recorder.reduction_began(1000);
  run.at(170);
  run.recorder.gradient_computed(second, {});
  run.at(175);
  run.recorder.begin(StepPart::synchronize, {});
  run.recorder.wait_began();
  run.at(195);
  run.recorder.reduction_ended();
  run.recorder.wait_ended();
  run.recorder.end(StepPart::synchronize, {});
  run.recorder.begin(StepPart::update, {});
  run.at(205);
  run.recorder.end(StepPart::update, {});
  run.recorder.end_step({});
  run.at(215);
  run.recorder.end_step({});
  run.recorder.stop();
  EXPECT_EQ(run.head().at("facts").at("libtorch"), "2.11.0");
  const auto steps = run.steps();
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[0], (json{{"kind", "step"},
                            {"step", 1},
                            {"start_us", 100.0},
                            {"step_us", 105.0},
                            {"before_first_gradient_us", 40.0},
                            {"backward_us", 30.0},
                            {"exposed_us", 20.0},
                            {"optimizer_us", 10.0},
                            {"other_us", 5.0},
                            {"communication_us", 55.0},
                            {"synchronize_us", 75.0},
                            {"reductions", 1},
                            {"reduced_bytes", 1000}}));
  EXPECT_EQ(steps[1].at("step"), 2);
  EXPECT_EQ(steps[1].at("start_us"), 205.0);
  EXPECT_EQ(steps[1].at("before_first_gradient_us"), 10.0);
  EXPECT_EQ(run.counters.steps_recorded.value(), 2U);
  EXPECT_EQ(run.counters.timeline_events.value(), 0U);
}

TEST(Recorder, ReductionThatAnotherThreadEndsEndsExposedTime) {
  Recording run;
  run.recorder.start_step_log(run.log());
  std::uint64_t pass = 0;
  run.recorder.gradient_computed(pass, {});
  run.recorder.begin(StepPart::synchronize, {});
  run.recorder.reduction_began(8);
  run.recorder.wait_began();
  run.at(30);
  std::thread([&] { run.recorder.reduction_ended(); }).join();
  run.at(37);
  run.recorder.wait_ended();
  run.recorder.end(StepPart::synchronize, {});
  run.recorder.end_step({});
  run.recorder.stop();
  const auto steps = run.steps();
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_EQ(steps[0].at("exposed_us"), 30.0);
  EXPECT_EQ(steps[0].at("other_us"), 7.0);
}

TEST(Recorder, MarksAfterStopHaveNoEffect) {
  Recording run;
  run.recorder.start_step_log(run.log());
  run.recorder.start_timeline(run.timeline());
  run.recorder.stop();
  run.recorder.stop();
  make_every_mark(run.recorder);
  EXPECT_FALSE(run.recorder.is_on());
  EXPECT_THAT(run.lines(), SizeIs(1)) << "the head";
  EXPECT_THAT(run.spans(), IsEmpty());
  EXPECT_EQ(run.counters.steps_recorded.value(), 0U);
  EXPECT_EQ(run.counters.timeline_events.value(), 0U);
}

TEST(Recorder, AbandonedStepHasNoLineAndNoNumber) {
  Recording run;
  run.recorder.start_step_log(run.log());
  run.at(10);
  run.recorder.end_step({});
  run.at(50);
  run.recorder.abandon_step();
  run.at(60);
  run.recorder.end_step({});
  run.recorder.stop();
  const auto steps = run.steps();
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[1].at("step"), 2);
  EXPECT_EQ(steps[1].at("start_us"), 50.0);
  EXPECT_EQ(steps[1].at("step_us"), 10.0);
}

TEST(Recorder, TimelineHasOneSpanForAdjacentStretchesOfAPhase) {
  Recording run;
  run.recorder.start_timeline(run.timeline());
  std::uint64_t a = 0, b = 0, c = 0;
  run.at(10);
  run.recorder.gradient_computed(a, {});
  run.at(12);
  run.recorder.gradient_computed(b, {});
  run.at(15);
  run.recorder.gradient_computed(c, {});
  for (const int begin : {15, 18}) {
    run.at(begin);
    run.recorder.begin(StepPart::update, {});
    run.at(begin + 3);
    run.recorder.end(StepPart::update, {});
  }
  run.recorder.end_step({});
  run.at(25);
  run.recorder.end_step({});
  run.recorder.stop_timeline();
  std::vector<std::tuple<std::string, double, double>> found;
  for (const json& span : run.spans()) found.emplace_back(span.at("name"), span.at("ts"), span.at("dur"));
  EXPECT_THAT(found, ElementsAre(std::tuple("before first gradient", 0.0, 10.0), std::tuple("backward", 10.0, 5.0),
                                 std::tuple("optimizer", 15.0, 6.0), std::tuple("before first gradient", 21.0, 4.0)));
  EXPECT_EQ(run.counters.timeline_events.value(), 4U);
  EXPECT_EQ(run.counters.steps_recorded.value(), 0U) << "there is no step log";
}

TEST(Recorder, SpanHasItsTimesAndBytes) {
  Recording run;
  run.recorder.start_timeline(run.timeline());
  run.at(3);
  {
    const Span span(run.recorder, "pack", 64);
    run.at(8);
  }
  run.recorder.stop_timeline();
  const auto spans = run.spans();
  ASSERT_THAT(spans, SizeIs(1));
  EXPECT_EQ(spans[0].at("name"), "pack");
  EXPECT_EQ(spans[0].at("ts"), 3.0);
  EXPECT_EQ(spans[0].at("dur"), 5.0);
  EXPECT_EQ(spans[0].at("args").at("bytes"), 64);
}

TEST(Recorder, SpanThatOutlivesItsTimelineIsLeftOut) {
  Recording run;
  run.recorder.start_timeline(run.timeline());
  {
    const Span span(run.recorder, "pack");
    run.recorder.stop_timeline();
  }
  EXPECT_THAT(run.spans(), IsEmpty());
}

// The second has nothing of the time between.
TEST(Recorder, TimelineCanBeStartedAgain) {
  Recording run;
  std::uint64_t a = 0, b = 0;
  for (const std::string name : {"first.json", "second.json"}) {
    const std::int64_t start = name == "first.json" ? 0 : 1000;
    run.at(start);
    run.recorder.start_timeline(run.timeline(name));
    EXPECT_TRUE(run.recorder.has_timeline());
    run.at(start + 10);
    run.recorder.gradient_computed(a, {});
    run.at(start + 20);
    run.recorder.gradient_computed(b, {});
    run.recorder.end_step({});
    run.recorder.stop_timeline();
    EXPECT_FALSE(run.recorder.has_timeline());
    EXPECT_FALSE(run.recorder.is_on());
    run.at(start + 500);
    run.recorder.end_step({});
    const auto spans = run.spans(name);
    ASSERT_THAT(spans, SizeIs(2)) << name;
    EXPECT_EQ(spans[0].at("name"), "before first gradient");
    EXPECT_EQ(spans[0].at("ts"), static_cast<double>(start));
    EXPECT_EQ(spans[0].at("dur"), 10.0);
    EXPECT_EQ(spans[1].at("name"), "backward") << "gradients of an earlier timeline begin no pass";
    EXPECT_EQ(spans[1].at("dur"), 10.0);
  }
}

TEST(Recorder, StepLogGoesOnWhenTimelineStops) {
  Recording run;
  run.recorder.start_step_log(run.log());
  run.at(10);
  run.recorder.end_step({});
  run.at(13);
  run.recorder.start_timeline(run.timeline());
  run.at(20);
  run.recorder.end_step({});
  run.recorder.stop_timeline();
  EXPECT_TRUE(run.recorder.is_on());
  run.at(30);
  run.recorder.end_step({});
  run.recorder.stop();
  const auto steps = run.steps();
  ASSERT_THAT(steps, SizeIs(3));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].at("step"), i + 1);
    EXPECT_EQ(steps[i].at("step_us"), 10.0);
  }
  EXPECT_THAT(run.spans(), SizeIs(1));
}

// With the real clock: for what the thread sanitizer sees, and for times that never decrease between threads.
TEST(Recorder, MarksOfManyThreadsAddUpInEveryStep) {
  Recording run;
  Recorder recorder(run.counters);
  recorder.start_step_log(run.log());
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!over) {
        recorder.reduction_began(8);
        { const Span span(recorder, "reduction", 8); }
        recorder.reduction_ended();
      }
    });
  }
  std::uint64_t pass = 0;
  for (int step = 0; step < 300; ++step) {
    if (step == 100) recorder.start_timeline(run.timeline());
    if (step == 200) recorder.stop_timeline();
    recorder.gradient_computed(pass, {});
    {
      const RecordedPart part(recorder, StepPart::synchronize, {});
      const RecordedWait wait(recorder);
    }
    { const RecordedPart part(recorder, StepPart::update, {}); }
    recorder.end_step({});
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  recorder.stop();
  const auto nanoseconds = [](const json& step, const char* name) {
    return std::llround(1000 * step.at(name).get<double>());
  };
  const auto steps = run.steps();
  ASSERT_THAT(steps, SizeIs(300));
  for (const json& step : steps) {
    std::int64_t sum = 0;
    for (const auto* field : {"before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us", "other_us"}) {
      EXPECT_GE(nanoseconds(step, field), 0);
      sum += nanoseconds(step, field);
    }
    EXPECT_EQ(sum, nanoseconds(step, "step_us"));
    EXPECT_LE(nanoseconds(step, "exposed_us"), nanoseconds(step, "communication_us"));
    EXPECT_LE(nanoseconds(step, "communication_us"), nanoseconds(step, "step_us"));
  }
  EXPECT_EQ(run.counters.steps_recorded.value(), 300U);
  static_cast<void>(run.spans());  // is complete
}

}  // namespace
}  // namespace kolo::telemetry

// Marks on a device, with a clock of the test: marks have times that the test chooses, and are passed when it says so.
#include "telemetry/device_marks.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "kolo/error.h"
#include "support/temporary_folder.h"
#include "telemetry/recorder.h"

namespace kolo::telemetry {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr Stream kBackward{nullptr, 0};
constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// What the test and the clock, which the marks own, have in common.
struct Device {
  std::int64_t now = 0;           // of marks that are recorded next
  std::int64_t passed_by = kEnd;  // marks up to this time are passed
  std::vector<std::int64_t> times;
  std::set<DeviceClock::Mark> live;
  int recorded = 0;
  int asked = 0;
  bool captured = false;
  bool fails = false;
};

class FakeClock final : public DeviceClock {
 public:
  explicit FakeClock(Device& device) : device_(device) {}
  std::optional<Mark> record(Stream) override {
    check();
    if (device_.captured) return std::nullopt;
    ++device_.recorded;
    device_.times.push_back(device_.now);
    const auto mark = static_cast<Mark>(device_.times.size() - 1);
    device_.live.insert(mark);
    return mark;
  }
  void record_again(Mark mark, Stream) override {
    check();
    if (!device_.captured) device_.times.at(mark) = device_.now;
  }
  std::optional<std::int64_t> time_of(Mark mark) override {
    check();
    ++device_.asked;
    EXPECT_TRUE(device_.live.contains(mark)) << "was released";
    if (device_.times.at(mark) > device_.passed_by) return std::nullopt;
    return device_.times.at(mark);
  }
  void release(Mark mark) noexcept override { EXPECT_EQ(device_.live.erase(mark), 1U) << "was released already"; }

 private:
  void check() const {
    if (device_.fails) throw BackendError("cudaEventRecord: cudaErrorLaunchFailure");
  }
  Device& device_;
};

class DeviceMarksTest : public testing::Test {
 protected:
  DeviceMarksTest() {
    marks_.set_clock(std::make_unique<FakeClock>(device_));
    marks_.start(0);
  }
  void hook(std::int64_t at, std::uint64_t& pass) {
    device_.now = at;
    marks_.gradient_computed(pass, kBackward);
  }
  void gradient(std::int64_t at, std::size_t index) { hook(at, passes_.at(index)); }
  void part(StepPart part, std::int64_t from, std::int64_t to) {
    device_.now = from;
    marks_.begin(part, kBackward);
    device_.now = to;
    marks_.end(part, kBackward);
  }
  void reduction(std::int64_t from, std::int64_t to, std::uint64_t bytes = 8) {
    device_.now = from;
    const std::uint64_t number = marks_.reduction_began(kBackward);
    device_.now = to;
    TimelineEvent event;
    event.bytes = bytes;
    marks_.reduction_ended(number, event, kBackward);
  }
  void end_step(std::int64_t at) {
    device_.now = at;
    marks_.end_step(kBackward);
  }
  StepTimes take() {
    const auto times = marks_.take_step();
    EXPECT_TRUE(times.has_value());
    return times.value_or(StepTimes{});
  }

  Device device_;
  DeviceMarks marks_;
  std::vector<std::uint64_t> passes_ = std::vector<std::uint64_t>(4, 0);  // by gradient
};

std::int64_t sum_of_phases(const StepTimes& times) {
  return times.before_first_gradient_ns + times.backward_ns + times.exposed_ns + times.optimizer_ns + times.other_ns;
}

// The CPU marks reductions when it enqueues them: here all at the end.
TEST_F(DeviceMarksTest, MarksCountInOrderOfTimeNotOfTheCalls) {
  gradient(40, 0);
  gradient(50, 1);
  part(StepPart::synchronize, 50, 82);
  reduction(41, 61, 100);
  reduction(62, 82, 200);
  part(StepPart::update, 82, 87);
  end_step(90);
  const StepTimes times = take();
  EXPECT_EQ(times.start_ns, 0);
  EXPECT_EQ(times.step_ns, 90);
  EXPECT_EQ(times.before_first_gradient_ns, 40);
  EXPECT_EQ(times.backward_ns, 10);
  EXPECT_EQ(times.exposed_ns, 11 + 20);
  EXPECT_EQ(times.optimizer_ns, 5);
  EXPECT_EQ(times.other_ns, 1 + 3);
  EXPECT_EQ(times.communication_ns, 40);
  EXPECT_EQ(times.synchronize_ns, 50);
  EXPECT_EQ(times.reductions, 2U);
  EXPECT_EQ(times.reduced_bytes, 300U);
}

TEST_F(DeviceMarksTest, OverlappingReductionsCountOnceAsCommunication) {
  gradient(10, 0);
  reduction(10, 40);
  reduction(20, 30);
  reduction(35, 60);
  part(StepPart::synchronize, 50, 70);
  end_step(70);
  const StepTimes times = take();
  EXPECT_EQ(times.communication_ns, 50);
  EXPECT_EQ(times.exposed_ns, 10);
}

TEST_F(DeviceMarksTest, SeveralPassesAddUpWithoutForwardBetween) {
  gradient(10, 0);
  gradient(15, 1);
  gradient(18, 2);
  gradient(30, 0);  // again: a second pass
  gradient(37, 1);
  part(StepPart::synchronize, 40, 40);
  end_step(40);
  const StepTimes times = take();
  EXPECT_EQ(times.before_first_gradient_ns, 10 + 12);
  EXPECT_EQ(times.backward_ns, 8 + 7);
  EXPECT_EQ(times.other_ns, 3);
}

TEST_F(DeviceMarksTest, GradientsAfterAPartOfTheStepAreAnotherPass) {
  gradient(10, 0);
  part(StepPart::synchronize, 15, 20);
  gradient(30, 1);
  gradient(34, 2);
  end_step(40);
  const StepTimes times = take();
  EXPECT_EQ(times.before_first_gradient_ns, 10 + 10);
  EXPECT_EQ(times.backward_ns, 4);
  EXPECT_EQ(times.other_ns, 5 + 5 + 6);
}

TEST_F(DeviceMarksTest, APassHasTwoEventsHoweverManyGradients) {
  std::vector<std::uint64_t> passes(300, 0);
  for (int step = 0; step < 3; ++step) {
    device_.recorded = 0;
    for (std::size_t i = 0; i < passes.size(); ++i) hook(1000 * step + 10 + static_cast<int>(i), passes[i]);
    EXPECT_EQ(device_.recorded, 2);
    end_step(1000 * (step + 1));
    EXPECT_EQ(take().backward_ns, 299) << "step " << step;
  }
  EXPECT_TRUE(device_.live.empty());
}

TEST_F(DeviceMarksTest, APassOfOneGradientHasNoLength) {
  gradient(10, 0);
  end_step(15);
  gradient(25, 0);
  end_step(30);
  for (const std::int64_t start : {0, 15}) {
    const StepTimes times = take();
    EXPECT_EQ(times.start_ns, start);
    EXPECT_EQ(times.before_first_gradient_ns, 10);
    EXPECT_EQ(times.backward_ns, 0);
    EXPECT_EQ(times.other_ns, 5);
  }
}

TEST_F(DeviceMarksTest, StepsInFlightAreTakenWhenTheDeviceHasPassedThem) {
  device_.passed_by = 0;
  for (const std::int64_t start : {0, 100, 200}) {
    gradient(start + 30, 0);
    reduction(start + 40, start + 60);
    part(StepPart::synchronize, start + 50, start + 70);
    end_step(start + 100);
    EXPECT_FALSE(marks_.take_step());
  }
  device_.passed_by = 199;
  EXPECT_EQ(take().start_ns, 0);
  EXPECT_FALSE(marks_.take_step());
  device_.passed_by = 300;
  for (const std::int64_t start : {100, 200}) {
    const StepTimes times = take();
    EXPECT_EQ(times.start_ns, start);
    EXPECT_EQ(times.step_ns, 100);
    EXPECT_EQ(times.exposed_ns, 10);
    EXPECT_EQ(times.communication_ns, 20);
  }
  EXPECT_FALSE(marks_.take_step());
  EXPECT_TRUE(device_.live.empty());
}

// A mark in a stream that the end of the step does not wait for.
TEST_F(DeviceMarksTest, AStepWithAMarkThatIsNotPassedIsNotComplete) {
  gradient(30, 0);
  reduction(40, 120);
  end_step(100);
  device_.passed_by = 110;
  EXPECT_FALSE(marks_.take_step());
  device_.passed_by = 120;
  const StepTimes times = take();
  EXPECT_EQ(times.step_ns, 120);
  EXPECT_EQ(sum_of_phases(times), 120);
}

TEST_F(DeviceMarksTest, AStepInFlightCostsOneQuestion) {
  for (std::size_t i = 0; i < 4; ++i) gradient(10, i);
  reduction(10, 20);
  end_step(100);
  device_.passed_by = 99;
  EXPECT_FALSE(marks_.take_step());
  EXPECT_EQ(device_.asked, 1);
}

TEST_F(DeviceMarksTest, AReductionWithoutAnEndDoesNotCount) {
  gradient(10, 0);
  device_.now = 20;
  static_cast<void>(marks_.reduction_began(kBackward));
  reduction(30, 40);
  part(StepPart::synchronize, 20, 50);
  end_step(50);
  const StepTimes times = take();
  EXPECT_EQ(times.communication_ns, 10);
  EXPECT_EQ(times.reductions, 1U);
}

TEST_F(DeviceMarksTest, AnAbandonedStepHasNoLineAndItsReductionsEndWithIt) {
  gradient(10, 0);
  device_.now = 12;
  marks_.begin(StepPart::synchronize, kBackward);
  const std::uint64_t number = marks_.reduction_began(kBackward);
  marks_.abandon_step(30);
  EXPECT_TRUE(device_.live.empty());
  marks_.end(StepPart::synchronize, kBackward);
  marks_.reduction_ended(number, {}, kBackward);
  gradient(45, 0);
  gradient(47, 1);
  end_step(50);
  const StepTimes times = take();
  EXPECT_EQ(times.start_ns, 30);
  EXPECT_EQ(times.before_first_gradient_ns, 15);
  EXPECT_EQ(times.backward_ns, 2);
  EXPECT_EQ(times.communication_ns, 0);
  EXPECT_FALSE(marks_.take_step());
}

TEST_F(DeviceMarksTest, AStreamThatIsCapturedHasNoMarks) {
  device_.captured = true;
  gradient(10, 0);
  gradient(20, 1);
  reduction(10, 20);
  device_.captured = false;
  gradient(30, 2);
  gradient(33, 3);
  end_step(50);
  const StepTimes times = take();
  EXPECT_EQ(times.before_first_gradient_ns, 30 + 3);
  EXPECT_EQ(times.reductions, 0U);
  EXPECT_EQ(times.step_ns, 50);
  EXPECT_TRUE(device_.live.empty());
}

TEST_F(DeviceMarksTest, WithoutAClockMarksHaveNoEffect) {
  DeviceMarks marks;
  marks.start(0);
  std::uint64_t pass = 0;
  marks.gradient_computed(pass, kBackward);
  marks.begin(StepPart::synchronize, kBackward);
  EXPECT_EQ(marks.reduction_began(kBackward), 0U);
  marks.end_step(kBackward);
  marks.abandon_step(10);
  EXPECT_FALSE(marks.take_step());
}

TEST_F(DeviceMarksTest, PhasesAddUpWhateverTheTimesOfTheMarks) {
  std::mt19937 random(7);
  const auto draw = [&random](std::int64_t from, std::int64_t length) {
    return from + std::uniform_int_distribution<std::int64_t>(0, length)(random);
  };
  std::int64_t end = 0;
  for (int step = 0; step < 200; ++step) {
    const std::int64_t start = 1000 * step;
    for (std::size_t i = 0; i < 6; ++i) gradient(draw(start, 300), draw(0, 3) < 3 ? i % 3 : 3);
    for (int i = 0; i < 4; ++i) {
      const std::int64_t from = draw(start, 700);
      reduction(from, draw(from, 300));
    }
    const std::int64_t wait = draw(start + 300, 200);
    part(StepPart::synchronize, wait, draw(wait, 300));
    part(StepPart::update, start + 800, draw(start + 800, 100));
    end_step(draw(start + 900, 100));
    const StepTimes times = take();
    EXPECT_EQ(times.start_ns, end);
    EXPECT_EQ(sum_of_phases(times), times.step_ns) << "step " << step;
    EXPECT_LE(times.exposed_ns, times.communication_ns) << "step " << step;
    EXPECT_EQ(times.reductions, 4U);
    end = times.start_ns + times.step_ns;
  }
}

class DeviceRecorderTest : public testing::Test {
 protected:
  DeviceRecorderTest() {
    recorder_.use_device_clock(std::make_unique<FakeClock>(device_),
                               [this](const std::string& line) { warnings_.push_back(line); });
  }
  void start_step_log() {
    recorder_.start_step_log(std::make_unique<StepLog>(log_, RunFacts{}, [](const std::string&) {}));
  }
  void step(std::int64_t end) {
    device_.now = end;
    recorder_.gradient_computed(pass_, kBackward);
    recorder_.begin(StepPart::synchronize, kBackward);
    recorder_.end(StepPart::synchronize, kBackward);
    recorder_.end_step(kBackward);
  }
  static std::vector<nlohmann::json> read(const std::string& file) {
    std::vector<nlohmann::json> lines;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  test::TemporaryFolder folder_;
  std::string log_ = folder_.path() / "steps.jsonl";
  Device device_;
  std::vector<std::string> warnings_;
  std::uint64_t pass_ = 0;
  Counters counters_;
  Recorder recorder_{counters_, [this] { return device_.now; }};
};

TEST_F(DeviceRecorderTest, WhileOffNothingIsRecorded) {
  step(1000);
  recorder_.reduction_ended(recorder_.reduction_began(kBackward), {}, kBackward);
  EXPECT_EQ(device_.recorded, 0);
  EXPECT_EQ(device_.asked, 0);
}

TEST_F(DeviceRecorderTest, StopWritesCompleteStepsAndDropsTheRest) {
  start_step_log();
  device_.passed_by = 0;
  for (const std::int64_t end : {1000, 2000, 3000}) step(end);
  EXPECT_EQ(counters_.steps_recorded.value(), 0U);
  device_.passed_by = 2000;
  recorder_.stop();
  const auto lines = read(log_);
  ASSERT_THAT(lines, SizeIs(3));  // a head, and two steps
  EXPECT_EQ(lines[1]["step"], 1);
  EXPECT_EQ(lines[2]["step"], 2);
  EXPECT_EQ(lines[2]["start_us"], 1.0);
  EXPECT_EQ(lines[2]["step_us"], 1.0);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(DeviceRecorderTest, AClockThatFailsEndsTheRecordingWithOneWarning) {
  start_step_log();
  device_.passed_by = 1000;
  step(1000);
  step(2000);  // in flight when the device fails
  device_.fails = true;
  step(3000);
  EXPECT_FALSE(recorder_.is_on());
  device_.fails = false;
  step(4000);
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("cudaErrorLaunchFailure"));
  EXPECT_THAT(warnings_[0], HasSubstr("Training continues"));
  EXPECT_THAT(read(log_), SizeIs(2));
}

TEST_F(DeviceRecorderTest, TimelineHasReductionsAndPhasesAtTimesOfTheDevice) {
  const std::string file = folder_.path() / "trace.json";
  recorder_.start_timeline(std::make_unique<Timeline>(file, RunFacts{}, counters_, [](const std::string&) {}));
  device_.now = 4000;
  recorder_.gradient_computed(pass_, kBackward);
  const std::uint64_t number = recorder_.reduction_began(kBackward);
  device_.now = 9000;
  recorder_.reduction_ended(
      number, {.name = "reduction", .algorithm = "nccl", .bytes = 64, .round = 5, .track = kFirstBucketTrack + 2},
      kBackward);
  recorder_.end_step(kBackward);
  recorder_.stop_timeline();
  std::ifstream stream(file);
  std::vector<std::string> spans;
  for (const auto& event : nlohmann::json::parse(stream)) {
    if (event["ph"] != "X") continue;
    spans.push_back(event["name"].get<std::string>() + " " + event["ts"].dump() + " " + event["dur"].dump());
    if (event["name"] != "reduction") continue;
    EXPECT_EQ(event["args"], (nlohmann::json{{"bytes", 64}, {"round", 5}, {"algorithm", "nccl"}}));
    EXPECT_EQ(event["tid"], kFirstBucketTrack + 2);
  }
  EXPECT_THAT(spans,
              testing::UnorderedElementsAre("before first gradient 0.0 4.0", "reduction 4.0 5.0", "other 4.0 5.0"));
}

// Gradients know the number of the pass that was the first, and the last, of an earlier recording.
TEST_F(DeviceRecorderTest, RecordingThatStartsAgainTellsPassesApart) {
  for (const Stream stream : {kBackward, Stream{}}) {
    std::vector<std::uint64_t> passes(3, 0);
    for (int recording = 0; recording < 3; ++recording) {
      device_.now += 1000;
      start_step_log();
      for (std::uint64_t& pass : passes) {
        device_.now += 1000;
        recorder_.gradient_computed(pass, stream);
      }
      recorder_.end_step(stream);
      recorder_.stop();
      const auto line = read(log_).back();
      EXPECT_EQ(line["before_first_gradient_us"], 1.0) << "recording " << recording;
      EXPECT_EQ(line["backward_us"], 2.0) << "recording " << recording;
    }
  }
}

}  // namespace
}  // namespace kolo::telemetry

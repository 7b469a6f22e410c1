// The step log of gradients on simulated devices: every field of a step has the value that follows from the times of
// the device's operations.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "multirank/device/device_world.h"
#include "support/temporary_folder.h"

namespace kolo::test {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

constexpr int kSteps = 6;
constexpr std::int64_t kFloats = 1024;
constexpr int kBytes = 4096;

// In microseconds. Rank 1's forward takes longer than that of other ranks. What is not here takes no time.
std::chrono::nanoseconds time_of(const std::string& what) {
  constexpr std::pair<const char*, int> kTimes[] = {
      {"forward of rank 1", 340}, {"forward", 300},    {"gradient", 100},
      {"kernel kolo_pack", 10},   {"all_reduce", 200}, {"reduce_scatter", 80},
      {"all_gather", 70},         {"copy", 30},        {"update", 50}};
  for (const auto& [name, us] : kTimes) {
    if (what.starts_with(name)) return microseconds(us);
  }
  return microseconds(0);
}

struct Trace {
  json steps = json::array();
  json spans = json::array();
};

bool has_nccl() {
  const auto reductions = device_reductions();
  return std::ranges::find(reductions, DeviceReduction::nccl) != reductions.end();
}

class StepTimesOnDevices : public testing::Test {
 protected:
  static DeviceWorld::Options options(DeviceReduction reduction, int buckets, const Hosts& hosts = one_host(2)) {
    DeviceWorld::Options options{.hosts = hosts};
    options.config.device_reduction = reduction;
    options.config.bucket_bytes = options.config.last_bucket_bytes = buckets == 2 ? kBytes : 2 * kBytes;
    options.takes = time_of;
    return options;
  }
  // Two gradients a step, and one part of synchronize and of update each.
  static void train(DeviceWorld& world, Context& context) {
    StepRecorder& recorder = context.engine().step_recorder();
    DeviceModel model(world, context.rank(), {kFloats, kFloats}, false);
    ReducerOptions options = model.options();
    options.contributions_stay = context.size() == 1;  // then nothing is packed
    auto reducer = context.engine().make_reducer(model.table(), options);
    std::vector<std::uint64_t> passes(2, 0);
    for (int step = 0; step < kSteps; ++step) {
      world.device().enqueue(model.user().handle, {.what = "forward of rank " + std::to_string(context.rank())});
      for (const std::size_t index : {1U, 0U}) {
        model.make(index, 1);
        recorder.gradient_computed(passes[index], model.backward());
        reducer->contribute(index, model.data(index), model.backward());
      }
      {
        const RecordedPart part(recorder, StepPart::synchronize, model.user());
        reducer->finish(model.user());
      }
      {
        const RecordedPart part(recorder, StepPart::update, model.user());
        model.use(reducer->gradient(0));
      }
      recorder.end_step(model.user());
    }
    reducer.reset();
    const std::chrono::seconds enough(20);
    context.communicator().barrier(enough);
    if (context.rank() == 0) {
      EXPECT_TRUE(world.device().drain());
    }
    context.communicator().barrier(enough);
  }
  std::vector<Trace> record(DeviceWorld::Options options) {
    options.config.step_log = folder_.path() / "steps";
    options.config.timeline = folder_.path() / "trace";
    {
      DeviceWorld world(options);
      world.run([&](Context& context) { train(world, context); });
    }
    std::vector<Trace> traces(options.hosts.size());
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
      const std::string end = ".rank" + std::to_string(rank);
      std::ifstream steps(options.config.step_log + end + ".jsonl");
      for (std::string line; std::getline(steps, line);) traces[rank].steps.push_back(json::parse(line));
      traces[rank].steps.erase(0);  // the head
      std::ifstream trace(options.config.timeline + end + ".json");
      for (const json& event : json::parse(trace)) {
        if (event["ph"] == "X") traces[rank].spans.push_back(event);
      }
    }
    return traces;
  }

  TemporaryFolder folder_;
};

// Steps from the third on: the first one starts when the log does, the second has the new buckets' first tables.
void expect_steps(const Trace& trace, const std::map<std::string, double>& expected) {
  ASSERT_EQ(trace.steps.size(), static_cast<std::size_t>(kSteps));
  for (std::size_t step = 2; step < trace.steps.size(); ++step) {
    for (const auto& [field, value] : expected) {
      EXPECT_NEAR(trace.steps[step][field].get<double>(), value, 0.005) << field << " of step " << step + 1;
    }
  }
}

// rank 0's stream   [ forward 300 ][ 100 ][ 100 ] waits ...................................[ 50 ]
// rank 1's stream   [ forward 340 ....][ 100 ][ 100 ] waits ...............................[ 50 ]
// lane of rank 0                         [10][ all_reduce: 40 + 200 ][10][ all_reduce 200 ]
// lane of rank 1                             [10][ all_reduce 200   ][10][ all_reduce 200 ]
TEST_F(StepTimesOnDevices, OfTwoBucketsByNcclFollowFromTheDevicesTimes) {
  if (!has_nccl()) GTEST_SKIP() << "a build without NCCL";
  const auto traces = record(options(DeviceReduction::nccl, 2));
  expect_steps(traces[0], {{"step_us", 910},
                           {"before_first_gradient_us", 400},
                           {"backward_us", 100},
                           {"exposed_us", 150 + 200},
                           {"optimizer_us", 50},
                           {"other_us", 10},
                           {"communication_us", 240 + 200},
                           {"synchronize_us", 500},
                           {"reductions", 2},
                           {"reduced_bytes", 2 * kBytes}});
  expect_steps(traces[1], {{"step_us", 910},
                           {"before_first_gradient_us", 440},
                           {"backward_us", 100},
                           {"exposed_us", 110 + 200},
                           {"optimizer_us", 50},
                           {"other_us", 10},
                           {"communication_us", 400},
                           {"synchronize_us", 540},
                           {"reductions", 2},
                           {"reduced_bytes", 2 * kBytes}});
}

TEST_F(StepTimesOnDevices, TimelineHasTheReductionsOfTheDevice) {
  if (!has_nccl()) GTEST_SKIP() << "a build without NCCL";
  const Trace trace = record(options(DeviceReduction::nccl, 2))[0];
  const double start = trace.steps[3]["start_us"];
  json found = json::array();
  for (const json& span : trace.spans) {
    if (span["name"] == "reduction" && span["args"]["round"] == 3) found.push_back(span);
  }
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0]["tid"], found[1]["tid"]);
  EXPECT_NEAR(found[0]["ts"].get<double>(), start + 410, 0.005);
  EXPECT_NEAR(found[0]["dur"].get<double>(), 240, 0.005);
  EXPECT_NEAR(found[1]["ts"].get<double>(), start + 660, 0.005);
  EXPECT_NEAR(found[1]["dur"].get<double>(), 200, 0.005);
  for (const json& span : found) {
    EXPECT_EQ(span["args"]["bytes"], kBytes);
    EXPECT_EQ(span["args"]["algorithm"], "nccl");
  }
}

// One bucket: [ pack 10 ][ copy out 30 ] hosts, in no time of the device [ copy in 30 ]
TEST_F(StepTimesOnDevices, OfABucketByTheHostsAreFromTheCopyOutToTheCopyIn) {
  const auto traces = record(options(DeviceReduction::host, 1));
  for (const double forward : {300, 340}) {
    expect_steps(traces[forward == 300 ? 0 : 1], {{"step_us", forward + 200 + 10 + 60 + 50},
                                                  {"before_first_gradient_us", forward + 100},
                                                  {"backward_us", 100},
                                                  {"exposed_us", 60},
                                                  {"optimizer_us", 50},
                                                  {"other_us", 10},
                                                  {"communication_us", 60},
                                                  {"reductions", 1},
                                                  {"reduced_bytes", 2 * kBytes}});
  }
}

// Two hosts with two ranks each, one bucket. Rank 0's device waits for rank 1's, 40 us.
//
//   [ pack 10 ][ 40 + reduce_scatter 80 ][ all_reduce between hosts 200 ][ all_gather 70 ]
TEST_F(StepTimesOnDevices, OfABucketInTwoStepsByNcclSpanBothSteps) {
  if (!has_nccl()) GTEST_SKIP() << "a build without NCCL";
  const auto traces = record(options(DeviceReduction::hierarchical, 1, {0, 0, 1, 1}));
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    const double waits = rank == 1 ? 0 : 40;
    expect_steps(traces[rank], {{"step_us", 340 + 200 + 10 + 350 + 50},
                                {"exposed_us", waits + 350},
                                {"communication_us", waits + 350},
                                {"optimizer_us", 50},
                                {"other_us", 10},
                                {"reductions", 1}});
  }
}

// The hosts' part takes no time of the device: only the copies out and in do. So the second host does not wait for the
// first one.
//
//   [ pack 10 ][ 40 + reduce_scatter 80 ][ copy out 30 ] hosts [ copy in 30 ][ all_gather 70 ]
TEST_F(StepTimesOnDevices, OfABucketThatHostsCarrySpanTheWholeWay) {
  if (!has_nccl()) GTEST_SKIP() << "a build without NCCL";
  const auto traces = record(options(DeviceReduction::mixed, 1, {0, 0, 1, 1}));
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    const double waits = rank == 0 ? 40 : 0;
    const double forward = rank < 2 ? 340 : 300;
    expect_steps(traces[rank], {{"step_us", forward + 200 + 10 + 210 + 50},
                                {"exposed_us", waits + 210},
                                {"communication_us", waits + 210},
                                {"optimizer_us", 50},
                                {"other_us", 10},
                                {"reductions", 1}});
  }
}

TEST_F(StepTimesOnDevices, OfOneRankHaveNoReduction) {
  const auto traces = record(options(DeviceReduction::host, 2, one_host(1)));
  expect_steps(traces[0], {{"step_us", 300 + 200 + 50},
                           {"before_first_gradient_us", 400},
                           {"backward_us", 100},
                           {"exposed_us", 0},
                           {"optimizer_us", 50},
                           {"other_us", 0},
                           {"communication_us", 0},
                           {"reductions", 0}});
}

TEST_F(StepTimesOnDevices, WithoutALogThereIsNoTimedEvent) {
  for (const DeviceReduction reduction : device_reductions()) {
    DeviceWorld world(options(reduction, 2));
    world.run([&](Context& context) { train(world, context); });
    EXPECT_EQ(world.device().timed_events(), 0);
    EXPECT_EQ(world.device().calls("event_elapsed_time"), 0);
  }
}

TEST_F(StepTimesOnDevices, ADeviceThatRefusesAnEventEndsTheLogAndNotTraining) {
  auto with_log = options(DeviceReduction::host, 1);
  std::mutex lock;
  std::vector<std::string> warnings;
  with_log.config.step_log = folder_.path() / "steps";
  with_log.config.log_sink = [&](LogLevel level, std::string_view line) {
    const std::lock_guard held(lock);
    if (level == LogLevel::warn && line.find("step log") != std::string_view::npos) warnings.emplace_back(line);
  };
  DeviceWorld world(with_log);
  world.device().fail("event_elapsed_time", 719, -1);
  world.run([&](Context& context) {
    train(world, context);
    EXPECT_FALSE(context.engine().step_recorder().is_on());
  });
  EXPECT_THAT(warnings, testing::SizeIs(2)) << "one of each rank";
}

}  // namespace
}  // namespace kolo::test

// Recording of ranks that are processes on pretended hosts, so that gradients go over TCP and messages are counted.
#include <gmock/gmock.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/make.h"
#include "kolo/context.h"
#include "kolo/spi/engine.h"
#include "runtime/context_parts.h"
#include "support/pretended_hosts.h"
#include "support/temporary_folder.h"

namespace kolo::runtime {
namespace {

using testing::HasSubstr;

constexpr std::size_t kFloats = 10'000;

// A Context of this rank, each rank on a host of its own; and a folder that all ranks share.
class World {
 public:
  World() = default;
  void create(Config config) {
    config.log_sink = [this](LogLevel level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (level >= LogLevel::warn) warnings_.emplace_back(line);
    };
    test::HostLayout layout;
    for (int rank = 0; rank < size(); ++rank) layout.push_back(rank);
    context_ = std::make_unique<Context>(
        make_process_parts(std::move(config), std::make_unique<test::PretendedHosts>(*real_, layout), nullptr));
  }
  ~World() { meet(); }  // before the folder goes
  void meet() { static_cast<void>(real_->allgather("")); }

  [[nodiscard]] int rank() const { return real_->placement().rank; }
  [[nodiscard]] int size() const { return real_->placement().size; }
  [[nodiscard]] Context& context() { return *context_; }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // Of this rank's step log.
  [[nodiscard]] std::vector<nlohmann::json> lines(const std::string& name) const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(file_of_rank(path(name), rank(), ".jsonl"));
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  [[nodiscard]] std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

 private:
  std::unique_ptr<cluster::Bootstrap> real_ = cluster::make_mpi_bootstrap();
  test::TemporaryFolder mine_;
  std::string folder_ = real_->allgather(mine_.path().string()).front();
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Context> context_;
};

// As a binding takes them.
class Steps {
 public:
  explicit Steps(Context& context) : context_(context), recorder_(context.engine().step_recorder()) {
    std::vector<GradientInfo> table(2);
    for (GradientInfo& info : table) info.sizes = {kFloats};
    table[0].name = "first";
    table[1].name = "second";
    ReducerOptions options;
    options.bucket_bytes = 1;
    reducer_ = context.engine().for_gradients().make_reducer(std::move(table), std::move(options));
  }
  // Every element of a gradient is rank + 1.
  void take(int count) {
    for (int step = 0; step < count; ++step) {
      for (std::size_t i = 0; i < gradients_.size(); ++i) {
        gradients_[i].assign(kFloats, static_cast<float>(context_.rank() + 1));
        recorder_.gradient_computed(passes_[i], {});
        reducer_->contribute(i, gradients_[i].data());
      }
      {
        const RecordedPart part(recorder_, StepPart::synchronize, {});
        reducer_->finish();
      }
      recorder_.end_step({});
    }
  }
  [[nodiscard]] float result() {
    return *reinterpret_cast<const float*>(reducer_->gradient(1).data());  // NOLINT: memory of floats
  }
  // What a step sends once ranks have a plan.
  [[nodiscard]] CounterSnapshot steady() {
    take(3);
    context_.barrier();
    const CounterSnapshot before = context_.counters();
    take(5);
    CounterSnapshot counts = context_.counters();
    for (auto& [name, value] : counts) value -= before.at(name);
    context_.barrier();  // a rank that leaves says so
    return counts;
  }

 private:
  Context& context_;
  StepRecorder& recorder_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::vector<float>> gradients_{2};
  std::vector<std::uint64_t> passes_ = std::vector<std::uint64_t>(2);
};

float mean_of_ranks(int ranks) { return static_cast<float>(ranks + 1) / 2; }

TEST(RecordingOfProcesses, SteadyStepSendsGradientsOnly) {
  World world;
  CounterSnapshot counts[2];
  for (const bool recorded : {false, true}) {
    Config config;
    if (recorded) {
      config.step_log = world.path("steps");
      config.timeline = world.path("trace");
    }
    world.create(config);
    Steps steps(world.context());
    counts[recorded ? 1 : 0] = steps.steady();
    EXPECT_EQ(steps.result(), mean_of_ranks(world.size()));
    world.context().shutdown();
  }
  EXPECT_GT(counts[0].at("messages_sent"), 0U);
  EXPECT_GT(counts[0].at("bytes_on_wire"), 5 * kFloats * sizeof(float));
  EXPECT_EQ(counts[0].at("control_messages"), 0U);
  for (const auto* name : {"messages_sent", "bytes_on_wire", "control_messages", "launches"}) {
    EXPECT_EQ(counts[1].at(name), counts[0].at(name)) << name;
  }
  EXPECT_EQ(counts[0].at("steps_recorded"), 0U);
  EXPECT_EQ(counts[0].at("timeline_events"), 0U);
  EXPECT_EQ(counts[1].at("steps_recorded"), 5U);
  EXPECT_GT(counts[1].at("timeline_events"), 0U);
}

TEST(RecordingOfProcesses, StepsWithoutSyncSendNothing) {
  World world;
  Config config;
  config.sync = false;
  config.step_log = world.path("alone");
  world.create(config);
  Steps steps(world.context());
  const CounterSnapshot counts = steps.steady();
  EXPECT_EQ(steps.result(), static_cast<float>(world.rank() + 1));
  for (const auto* name : {"messages_sent", "bytes_on_wire", "control_messages"}) {
    EXPECT_EQ(counts.at(name), 0U) << name;
  }
  float sum = 1;
  Request request;
  request.name = "sum";
  request.sizes = {1};
  request.input = request.output = &sum;
  world.context().submit(request).wait();
  EXPECT_EQ(sum, static_cast<float>(world.size()));
  world.context().barrier();
  if (world.rank() == 0) {
    EXPECT_THAT(world.warnings(), testing::ElementsAre(HasSubstr("sync=off")));
  } else {
    EXPECT_THAT(world.warnings(), testing::IsEmpty());
  }
  world.context().shutdown();
  const auto lines = world.lines("alone");
  EXPECT_THAT(lines, testing::SizeIs(1 + 8));
  EXPECT_EQ(lines.front().at("size"), world.size());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("reductions"), 0) << "with a group of one rank nothing is reduced";
    EXPECT_EQ(lines[i].at("communication_us"), 0.0);
  }
}

TEST(RecordingOfProcesses, TransportBetweenHostsIsAFact) {
  World world;
  Config config;
  config.step_log = world.path("transport");
  config.network = Network::tcp;
  world.create(config);
  Steps(world.context()).take(1);
  world.context().shutdown();
  EXPECT_EQ(world.lines("transport").front().at("facts").at("network"), "tcp");
}

// All processes of this machine share a clock, so the true offset is 0, which ranks of other hosts do not know.
TEST(RecordingOfProcesses, ClockOffsetOfAnotherHostIsMeasured) {
  World world;
  Config config;
  config.step_log = world.path("offset");
  world.create(config);
  Steps(world.context()).take(1);
  world.context().shutdown();
  const auto head = world.lines("offset").front();
  const auto offset = head.at("clock_offset_us").get<double>();
  const auto error = head.at("clock_error_us").get<double>();
  if (world.rank() == 0) {
    EXPECT_EQ(offset, 0);
    EXPECT_EQ(error, 0);
  } else {
    EXPECT_LE(std::abs(offset), error);
    EXPECT_GT(error, 0);
  }
}

}  // namespace
}  // namespace kolo::runtime

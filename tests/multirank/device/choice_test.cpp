// Who reduces gradients of devices: KOLO_DEVICE_REDUCTION, and what ranks have.
#include <gmock/gmock.h>

#include <mutex>

#include "multirank/device/training.h"

namespace kolo::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// What a world logs, of all ranks.
class Lines {
 public:
  [[nodiscard]] LogSink sink() {
    return [this](LogLevel level, std::string_view line) {
      const std::scoped_lock lock(lock_);
      if (level == LogLevel::warn) warnings_.emplace_back(line);
      if (line.find("CUDA runtime") != std::string_view::npos) introductions_.emplace_back(line);
    };
  }
  [[nodiscard]] std::vector<std::string> warnings() const { return warnings_; }
  // Of devices, where a world begins with them.
  [[nodiscard]] std::vector<std::string> introductions() const { return introductions_; }

 private:
  std::mutex lock_;
  std::vector<std::string> warnings_;
  std::vector<std::string> introductions_;
};

Config asking_for(DeviceReduction reduction) {
  auto config = small_buckets();
  config.device_reduction = reduction;
  return config;
}

// How often NCCL was begun with by a rank.
int trained_over_nccl(const DeviceWorld::Options& options) {
  DeviceWorld world(options);
  world.run([&](Context& context) {
    const DeviceProgram program{.seed = 5};
    for (const auto& [step, index, values] : train(world, context, program)) {
      EXPECT_EQ(far_from(program.mean(world.size(), index, step), *values), 0)
          << "tensor " << index << " step " << step;
    }
  });
  return world.nccl().calls("init");
}

// Every rank's error; empty: none.
std::vector<std::string> errors_of(DeviceWorld& world) {
  std::vector<std::string> texts(static_cast<std::size_t>(world.size()));
  world.run([&](Context& context) {
    DeviceModel model(world, context.rank(), {10}, false);
    try {
      context.engine().make_reducer(model.table(), model.options());
    } catch (const UsageError& error) {
      texts[static_cast<std::size_t>(context.rank())] = error.what();
    }
  });
  return texts;
}

TEST(DeviceChoice, OneRankWithoutNcclMeansTheHostsForAllAndOneWarning) {
  Lines lines;
  auto config = asking_for(DeviceReduction::automatic);
  config.log_sink = lines.sink();
  // Longer than any buffer that somebody might think enough.
  const std::string reason = "not found in " + std::string(20'000, 'x') + " nor at the end";
  EXPECT_EQ(trained_over_nccl({.hosts = one_host(3), .config = config, .without_nccl = {{1, reason}}}), 0);
  EXPECT_THAT(lines.warnings(), ElementsAre(AllOf(HasSubstr("no NCCL on rank 1"), HasSubstr(reason),
                                                  HasSubstr("on the CPUs"), HasSubstr("KOLO_DEVICE_REDUCTION"))));
}

TEST(DeviceChoice, DevicesAreIntroducedOnceByEachHost) {
  for (const auto reduction : device_reductions()) {
    Lines lines;
    auto config = asking_for(reduction);
    config.log_sink = lines.sink();
    (void)trained_over_nccl({.hosts = {0, 0, 1}, .config = config});
    const char* const by = reduction == DeviceReduction::host ? "reduced on the CPUs" : "NCCL 2.28.9";
    EXPECT_THAT(
        lines.introductions(),
        testing::UnorderedElementsAre(AllOf(HasSubstr("ranks 0, 1 on"),
                                            HasSubstr("2 x Simulated device, 1.0 GiB (0000:01:00.0, "
                                                      "0000:02:00.0), peer access between all"),
                                            HasSubstr("driver for CUDA 13.0"), HasSubstr(by)),
                                      AllOf(HasSubstr("rank 2 on"), HasSubstr("1 x Simulated device"), HasSubstr(by))));
  }
  Lines lines;
  auto config = asking_for(DeviceReduction::automatic);
  config.log_sink = lines.sink();
  (void)trained_over_nccl({.hosts = one_host(1), .config = config});
  EXPECT_THAT(lines.introductions(), ElementsAre(HasSubstr("one rank: no reduction")));
}

TEST(DeviceChoice, TheLaneHasThePriorityThatIsAskedFor) {
  for (const auto priority : {StreamPriority::high, StreamPriority::normal}) {
    DeviceWorld world({one_host(1)});
    world.run([&](Context& context) {
      Config config = context.config();
      config.stream_priority = priority;
      const telemetry::Logger logger(LogLevel::error, config.log_sink);
      const auto find = [&] { return world.devices(); };
      const auto lane = runtime::make_lane(find, 0, {&context.placement(), &config, &context.engine(), &logger});
      EXPECT_EQ(world.device().priority(lane->stream().handle) < 0, priority == StreamPriority::high);
    });
  }
}

TEST(DeviceChoice, HostsThatWereAskedForNeedNoNcclAndNoWarning) {
  Lines lines;
  auto config = asking_for(DeviceReduction::host);
  config.log_sink = lines.sink();
  EXPECT_EQ(trained_over_nccl({.hosts = one_host(2), .config = config, .without_nccl = {{0, "none"}, {1, "none"}}}), 0);
  EXPECT_THAT(lines.warnings(), ElementsAre());
}

TEST(DeviceChoice, NcclThatWasAskedForAndIsMissingIsAnErrorOnAllRanks) {
  DeviceWorld world({.hosts = one_host(3),
                     .config = asking_for(DeviceReduction::nccl),
                     .without_nccl = {{0, "a bad library"}, {1, "none"}, {2, "none"}}});
  const auto texts = errors_of(world);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("KOLO_DEVICE_REDUCTION=nccl"), HasSubstr("a bad library"), HasSubstr("1, 2")));
  EXPECT_THAT(texts, testing::Each(texts[0]));
}

// The setting is each process's own; here one rank is given another one.
TEST(DeviceChoice, SettingsThatDifferAreAMismatchOnAllRanks) {
  DeviceWorld world({one_host(3)});
  std::vector<std::string> texts(3);
  world.run([&](Context& context) {
    Config config = context.config();
    if (context.rank() == 2) config.device_reduction = DeviceReduction::host;
    const telemetry::Logger logger(LogLevel::error, config.log_sink);
    const auto find = [&] { return world.devices(); };
    try {
      (void)runtime::make_lane(find, context.rank(), {&context.placement(), &config, &context.engine(), &logger});
    } catch (const MismatchError& error) {
      texts[static_cast<std::size_t>(context.rank())] = error.what();
    }
  });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("auto on rank 0"), HasSubstr("host on rank 2")));
  EXPECT_THAT(texts, testing::Each(texts[0]));
}

TEST(DeviceChoice, ARankAloneNeedsNoNccl) {
  EXPECT_EQ(trained_over_nccl(
                {.hosts = one_host(1), .config = asking_for(DeviceReduction::nccl), .without_nccl = {{0, "none"}}}),
            0);
}

// A GPU that is older than what the kernels are compiled for: said before anything is trained.
TEST(DeviceChoice, KernelsThatDoNotRunOnOneRanksDeviceAreAnErrorOnAll) {
  DeviceWorld world({.hosts = one_host(3), .seed = 1, .config = asking_for(DeviceReduction::automatic)});
  world.device().fail("launch", 209);
  const auto errors = errors_of(world);
  EXPECT_THAT(errors, testing::Each(AllOf(HasSubstr("rank "), HasSubstr("kernels do not run on device"))));
  EXPECT_THAT(errors, testing::Each(errors.front()));
}

}  // namespace
}  // namespace kolo::test

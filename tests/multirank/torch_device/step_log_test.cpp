// The step log of a DistributedOptimizer whose tensors lie on a device.
#include <fstream>
#include <nlohmann/json.hpp>

#include "multirank/torch_device/trainee.h"
#include "support/temporary_folder.h"

namespace kolo::test {
namespace {

using nlohmann::json;

constexpr double kOperationUs = 10;  // of everything that the device does

Tensors trained(Place& place) {
  Trainee trainee(place);
  for (int step = 0; step < kSteps; ++step) {
    trainee.optimizer.zero_grad();
    trainee.loss(step).backward();
    trainee.optimizer.step();
  }
  return trainee.net.values();
}

// Everything takes the same time on the device, so that times which are multiples of it are the device's.
TEST(StepLogOnDevices, HasTheTimesOfTheDevice) {
  const TemporaryFolder folder;
  for (const DeviceReduction reduction : device_reductions()) {
    DeviceWorld::Options options{.hosts = one_host(2)};
    options.config.device_reduction = reduction;
    options.config.step_log = folder.path() / ("steps" + std::to_string(static_cast<int>(reduction)));
    options.takes = [](const std::string& what) {
      const bool is_order = what.ends_with("an event");  // takes no time
      return std::chrono::microseconds(is_order ? 0 : static_cast<int>(kOperationUs));
    };
    DeviceWorld world(options);
    run_on_devices(world, [&](Place& place) {
      trained(place);
      place.context.communicator().barrier(std::chrono::seconds(20));
      if (place.context.rank() == 0) {
        EXPECT_TRUE(world.device().drain());
      }
      place.context.communicator().barrier(std::chrono::seconds(20));
    });
    for (const int rank : {0, 1}) {
      std::ifstream file(options.config.step_log + ".rank" + std::to_string(rank) + ".jsonl");
      std::vector<json> lines;
      for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
      ASSERT_EQ(lines.size(), 1U + kSteps);
      const json& step = lines.back();
      double sum = 0;
      for (const char* field : {"before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us", "other_us"}) {
        const double time = step[field];
        EXPECT_NEAR(std::remainder(time, kOperationUs), 0, 0.005) << field << " " << time;
        sum += time;
      }
      EXPECT_NEAR(step["step_us"], sum, 0.005);
      EXPECT_LE(step["exposed_us"], step["communication_us"]);
      for (const char* field : {"before_first_gradient_us", "backward_us", "exposed_us", "optimizer_us"}) {
        EXPECT_GE(step[field], kOperationUs) << field;
      }
      EXPECT_GE(step["reductions"], 2);
    }
  }
}

}  // namespace
}  // namespace kolo::test

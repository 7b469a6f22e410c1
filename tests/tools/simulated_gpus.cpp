// Simulates a GPU job for tests of `kolo scaling`: each rank is a thread with its own simulated GPU.
//
//   simulated_gpus RANKS [WORDS...]     WORDS are ignored: a launcher would start them
//
// KOLO_STEP_LOG, KOLO_TIMELINE and KOLO_SYNC are as in a Context that Context::create() makes.
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/environment.h"
#include "multirank/torch_device/trainee.h"

int main(int argc, char** argv) {
  using namespace kolo::test;
  constexpr int kTrainedSteps = 60;
  if (argc < 2) return 2;
  DeviceWorld::Options options{.hosts = one_host(std::atoi(argv[1]))};
  options.config.step_log = kolo::base::get_environment("KOLO_STEP_LOG").value_or("");
  options.config.timeline = kolo::base::get_environment("KOLO_TIMELINE").value_or("");
  options.config.sync = kolo::base::get_environment("KOLO_SYNC") != "off";
  options.takes = [](const std::string& what) {
    return std::chrono::microseconds(what.ends_with("an event") ? 0 : 10);  // of the simulated clock
  };
  DeviceWorld world(options);
  run_on_devices(world, [&](Place& place) {
    Trainee trainee(place);
    for (int step = 0; step < kTrainedSteps; ++step) {
      trainee.optimizer.zero_grad();
      trainee.loss(step).backward();
      trainee.optimizer.step();
    }
    place.context.communicator().barrier(std::chrono::seconds(20));
    if (place.context.rank() == 0) world.device().drain();  // the last events
    place.context.communicator().barrier(std::chrono::seconds(20));
  });
  return 0;
}

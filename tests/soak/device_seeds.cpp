// Schedules of simulated devices under training steps: 2 to 4 ranks, on one host and on several, reduced by NCCL, by
// the hosts, and in two steps; sometimes for two optimizers, and with plans that are made anew.
#include "multirank/device/training.h"
#include "soak/seeds.h"

namespace kolo::test {
namespace {

void check_schedule(std::uint32_t seed) {
  std::mt19937 random(seed);
  DeviceWorld::Options options;
  options.seed = seed + 1U;
  constexpr CoordinatorMode kModes[] = {CoordinatorMode::automatic, CoordinatorMode::always, CoordinatorMode::never};
  options.config = small_buckets(kModes[random() % 3]);
  constexpr DeviceReduction kReductions[] = {DeviceReduction::automatic, DeviceReduction::host,
                                             DeviceReduction::hierarchical, DeviceReduction::mixed};
  options.config.device_reduction = kReductions[random() % 4];
  options.config.nccl_registration = random() % 2 == 0;
  if (device_reductions().size() == 1) options.config.device_reduction = DeviceReduction::host;  // there is no NCCL
  const auto ranks = 2 + random() % 3;
  const auto ranks_of_a_host = 1 + random() % 4;
  for (std::uint_fast32_t rank = 0; rank < ranks; ++rank) {
    options.hosts.push_back(static_cast<int>(rank / ranks_of_a_host));
  }
  const unsigned missing = random() % 2 == 0 ? 0 : static_cast<unsigned>(random() % 6);
  DeviceProgram program{.seed = seed, .side_stream = random() % 2 == 0, .missing = missing};
  program.two = random() % 2 == 0;
  program.changes = random() % 2 == 0 ? 0 : static_cast<unsigned>(random() % 6);
  check_training(options, program);
}

}  // namespace
}  // namespace kolo::test

int main(int argc, char** argv) { return kolo::soak::try_seeds(argc, argv, kolo::test::check_schedule); }

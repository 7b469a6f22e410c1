#include "support/device/simulated_library.h"

namespace kolo::test {

nccl::LibraryPtr simulated_library(const SimulatedNccl& nccl) {
  return std::make_shared<const nccl::Library>(nccl.api(), "simulated");
}

std::vector<DeviceReduction> device_reductions() { return {DeviceReduction::nccl, DeviceReduction::host}; }

}  // namespace kolo::test

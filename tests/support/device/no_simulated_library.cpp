// The twin of simulated_library.cpp in builds without NCCL.
#include "support/device/simulated_library.h"

namespace kolo::test {

nccl::LibraryPtr simulated_library(const SimulatedNccl& /*nccl*/) { return nccl::load_library(); }

std::vector<DeviceReduction> device_reductions() { return {DeviceReduction::host}; }

}  // namespace kolo::test

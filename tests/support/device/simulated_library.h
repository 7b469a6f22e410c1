#pragma once
// What stands for the NCCL of a process in tests, in builds with NCCL and without.
#include <vector>

#include "kolo/config.h"
#include "nccl/library.h"
#include "support/device/simulated_nccl.h"

namespace kolo::test {

// In a build without NCCL: throws what such a build throws.
[[nodiscard]] nccl::LibraryPtr simulated_library(const SimulatedNccl& nccl);
// What may reduce gradients of devices in this build.
[[nodiscard]] std::vector<DeviceReduction> device_reductions();

}  // namespace kolo::test

#pragma once
#include "support/device/simulated_device.h"

namespace kolo::test {

// Every kernel of kolo, with its host body and what it reads and writes.
void add_kolo_kernels(SimulatedDevice& device);

}  // namespace kolo::test

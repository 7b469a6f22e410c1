#pragma once
// A network that reads and writes memory of simulated devices by itself, for ranks that are threads. What a device
// might still do to that memory, when a message begins and until it has gone or come, is a violation.
#include <memory>
#include <vector>

#include "support/device/simulated_device.h"
#include "transport/device_transport.h"

namespace kolo::test {

// By rank. `device` outlives them.
[[nodiscard]] std::vector<std::unique_ptr<transport::DeviceTransport>> make_simulated_network(SimulatedDevice& device,
                                                                                              int ranks);

}  // namespace kolo::test

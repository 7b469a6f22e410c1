#pragma once
// Messages that may lie in memory of devices.
#include <memory>

#include "transport/transport.h"

namespace kolo::transport {

// Beyond what a Transport does: `data` and `into` may be memory of a device of this process, which no other work
// touches meanwhile. Receives are as long as what is sent; a shorter message is told by size(). Nobody waits for
// activity here: the engine looks again and again.
class DeviceTransport : public Transport {
 public:
  // What transfers that were abandoned may still touch: goes with this transport, or never.
  virtual void keep(std::shared_ptr<void> memory) = 0;
};

}  // namespace kolo::transport

#pragma once
// What an engine is made of, and whom it asks.
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "base/call_limit.h"
#include "device/lane.h"
#include "engine/communicators.h"
#include "engine/stall_inquiry.h"
#include "kolo/config.h"
#include "kolo/spi/engine.h"
#include "kolo/types.h"
#include "telemetry/counters.h"
#include "telemetry/recorder.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace kolo::engine {

struct EngineParts {
  Placement placement;
  const Config* config = nullptr;             // borrowed, as all below
  transport::Transport* transport = nullptr;  // null in a world of one
  transport::Tag control_tag = 0;
  bool over_network = false;    // a look at the transport costs a system call, and nothing moves but by looks
  bool transport_wakes = true;  // its wait_for_activity() ends when something comes
  bool heartbeat = false;       // the coordinator may use the transport although nothing is pending
  transport::SharedMemory* shared_memory = nullptr;  // what `communicators` allocate from; null: none
  CommunicatorFactory communicators;                 // for one operation at a time
  CommunicatorFactory named;                         // for all that is requested by name; null: as the others
  telemetry::Counters* counters = nullptr;
  Engine* for_gradients = nullptr;  // see Engine::for_gradients(); null: this engine
  std::shared_ptr<telemetry::Recorder> recorder = std::make_shared<telemetry::Recorder>();  // is off until started
  // Collective: what this rank does on `device`. Throws UsageError where it cannot be had. Null: no world of devices.
  std::function<std::unique_ptr<device::Lane>(int device)> make_lane;
  StallInquiry* inquiry = nullptr;   // null: nobody can be asked
  base::CallLimit* calls = nullptr;  // of the collectives that the program calls directly
  // How long after a peer's death this rank may hear of it: so long a failure that it may have caused is not told. 0:
  // nobody dies alone.
  std::chrono::milliseconds death_notice{};
  std::function<void(LogLevel, std::string_view)> log;
};

}  // namespace kolo::engine

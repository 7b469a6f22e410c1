#pragma once
// A failure that is known and whose consequences are still to come.
#include <chrono>

#include "engine/messages.h"

namespace kolo::engine {

// A failure of this rank that may be a peer's death: nothing is begun, and others are listened to, until that is known.
struct HeldFailure {
  Fatal fatal;
  std::chrono::steady_clock::time_point until;
};

}  // namespace kolo::engine

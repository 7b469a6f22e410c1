#pragma once
// Where the engine gets communicators from: each use has a tag range of its own, so that uses never match each other's
// messages whatever order they run in.
#include <functional>
#include <memory>

#include "kolo/communicator.h"

namespace kolo::engine {

// Every call on every rank, in the same order, makes the next communicator. All of them share one transport.
using CommunicatorFactory = std::function<std::unique_ptr<Communicator>()>;

}  // namespace kolo::engine

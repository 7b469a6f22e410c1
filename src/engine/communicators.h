#pragma once
// Where the engine gets communicators from: each use has a tag range of its own, so that uses never match each other's
// messages whatever order they run in.
#include <chrono>
#include <functional>
#include <memory>

#include "kolo/spi/communicator.h"

namespace kolo::engine {

// Every call on every rank, in the same order, makes the next communicator. All of them share one transport.
using CommunicatorFactory = std::function<std::unique_ptr<Communicator>()>;

// The next one, with the memory that it needs by itself. Waits for all ranks; made at its first use instead, that
// memory would be waited for where ranks may be at different points of their lists.
[[nodiscard]] inline std::unique_ptr<Communicator> make_prepared(const CommunicatorFactory& factory,
                                                                 std::chrono::milliseconds timeout) {
  auto communicator = factory();
  static_cast<void>(communicator->allocate({}, timeout));
  return communicator;
}

}  // namespace kolo::engine

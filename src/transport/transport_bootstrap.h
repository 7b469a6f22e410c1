#pragma once
// The first conversation of a world whose ranks have a transport already: that of the world before it.
#include <chrono>
#include <functional>
#include <memory>

#include "cluster/bootstrap.h"
#include "transport/transport.h"

namespace kolo::transport {

struct ConversationParts {
  Transport* transport = nullptr;  // between the ranks of the new world; in use until the last allgather() has returned
  Tag tag = 0;                     // this and the next are used for nothing else
  std::chrono::milliseconds timeout{};              // of one allgather()
  std::function<void()> while_waiting;              // as of Bootstrap; empty: none
  int device = 0;                                   // Placement::device of this rank
  std::function<void(std::shared_ptr<void>)> keep;  // takes memory that must outlive the transport, after an error
};

// Collective. allgather() goes in ceil(log2 p) rounds, so a rank speaks to as many others. Throws TimeoutError,
// PeerLostError, and what `while_waiting` throws.
[[nodiscard]] std::unique_ptr<cluster::Bootstrap> make_transport_bootstrap(ConversationParts parts);

}  // namespace kolo::transport

#pragma once
// Carries Envelopes along the tree. A frame is at most 4 KiB: a 4-byte length and the message's beginning; a longer
// message's rest follows as a second transport message.
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "engine/messages.h"
#include "engine/tree.h"
#include "kolo/error.h"
#include "telemetry/counters.h"
#include "transport/transport.h"

namespace kolo::engine {

// Externally synchronized (the engine's progress lock).
class ControlChannel {
 public:
  ControlChannel(Tree tree, transport::Transport& transport, transport::Tag tag, telemetry::Counters& counters);
  ~ControlChannel();

  struct Received {
    Rank from;
    Envelope envelope;
  };
  // The next message from a neighbour, if one has arrived. Throws PeerLostError or BackendError.
  [[nodiscard]] std::optional<Received> receive();
  void send(Rank to, const Envelope& envelope);
  // Lets sends go on; true when all have left. Throws PeerLostError for those that a neighbour will never take, once;
  // other errors of the transport's, after which everything is as before.
  bool flush();
  // Whether all had left when flush() was last called.
  [[nodiscard]] bool idle() const noexcept { return outgoing_.empty(); }
  [[nodiscard]] const Tree& tree() const noexcept { return tree_; }

 private:
  struct Inbox;
  struct Outgoing;
  [[nodiscard]] std::optional<Envelope> poll(Inbox& inbox);
  void expect_next(Inbox& inbox);

  Tree tree_;
  transport::Transport& transport_;
  transport::Tag tag_;
  telemetry::Counters& counters_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
};

}  // namespace kolo::engine

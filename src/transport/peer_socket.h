#pragma once
// Sockets between the processes of one host, over which descriptors of shared memory travel.
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "cluster/peer_process.h"

namespace kolo::transport {

using cluster::PeerProcess;

// What a message about an allocation says, in this order: process_shared_memory.cpp.
enum class Part : std::uint64_t { room, reserved, memory, received, mapped };

// What a peer says; a descriptor may travel with it.
struct PeerMessage {
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  Part part = Part::room;
  std::int32_t error = 0;  // errno of what failed over there
  std::int32_t rank = 0;   // local rank of the sender
};
static_assert(std::is_trivially_copyable_v<PeerMessage>);

struct ReceivedMessage {
  PeerMessage message;
  base::UniqueFd descriptor;
};

// A listening socket under a random name in the abstract namespace: no file to leave behind. Only the same user gets
// in.
class PeerListener {
 public:
  explicit PeerListener(int backlog);
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  // A connection of the same user; empty when none is waiting.
  [[nodiscard]] base::UniqueFd accept() const;

 private:
  std::string name_;
  base::UniqueFd socket_;
};

// Throws PeerLostError when nobody listens there any more, and BackendError.
[[nodiscard]] base::UniqueFd connect_to_peer(const std::string& name, const PeerProcess& peer,
                                             const base::Deadline& deadline);
// `descriptor` may be -1. Throws PeerLostError, BackendError.
void send_to_peer(int socket, const PeerMessage& message, int descriptor, const PeerProcess& peer);
// Waits until `socket` is readable. False at the deadline. Throws PeerLostError when the peer died before.
[[nodiscard]] bool wait_for_peer(int socket, const PeerProcess& peer, const base::Deadline& deadline);
// REQUIRES: wait_for_peer() returned true. Throws PeerLostError when the peer has closed its end.
[[nodiscard]] ReceivedMessage receive_from_peer(int socket, const PeerProcess& peer);

}  // namespace kolo::transport

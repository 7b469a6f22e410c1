#pragma once
// One rank's traffic with one peer over two rings.
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "transport/inbox.h"
#include "transport/shm_ring.h"

namespace kolo::transport {

// Shared by the transfer's handle and the queue, either of which may let go first.
struct ShmSend {
  Tag tag;
  std::span<const std::byte> data;
  std::size_t sent = 0;
  bool begun = false;
  bool done = false;
  std::vector<std::byte> own;  // of a send that was abandoned: a message that has begun must end
};

// Externally synchronized. Never waits.
class ShmPeer {
 public:
  ShmPeer(RingWriter out, RingReader in) : out_(out), in_(in) {}

  void send(std::shared_ptr<ShmSend> send);
  void receive(std::shared_ptr<PostedReceive> receive) { inbox_.post(std::move(receive)); }
  // What a call has done, for the caller to ring bells about.
  struct Moved {
    bool wrote = false;      // the peer may have something to read
    bool made_room = false;  // the peer, whose ring was full, may write
    bool completed = false;  // a transfer of this rank has completed
  };
  // Moves whatever can move.
  Moved progress();
  // Whether progress() would do something now.
  [[nodiscard]] bool has_work() const noexcept;
  [[nodiscard]] bool idle() const noexcept { return sends_.empty() && !inbox_.wanted(); }

 private:
  void pump_out(Moved& moved);
  void pump_in(Moved& moved);

  RingWriter out_;
  RingReader in_;
  Inbox inbox_;
  std::deque<std::shared_ptr<ShmSend>> sends_;  // the first is under way
  bool blocked_ = false;                        // the peer was asked to tell of room
};

}  // namespace kolo::transport

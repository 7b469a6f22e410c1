#pragma once
// One rank's traffic with one peer over two rings: what is still to be sent, and which arrival belongs to which
// receive.
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/shm_ring.h"

namespace kolo::transport {

// Shared by the transfer's handle and the queue, either of which may let go first.
struct ShmSend {
  Tag tag;
  std::span<const std::byte> data;
  std::size_t sent = 0;
  bool begun = false;
  bool done = false;
};

struct ShmReceive {
  Tag tag;
  std::span<std::byte> into;
  std::size_t size = 0;
  bool too_long = false;
  bool done = false;
};

// A message that came before its receive.
struct ShmUnexpected {
  Tag tag;
  std::vector<std::byte> data;
  bool whole = false;
  std::shared_ptr<ShmReceive> claimed;  // posted while it was still coming in
};

// The message that is being read.
struct ShmIncoming {
  std::size_t rest = 0;
  std::byte* to = nullptr;  // null: it does not fit anywhere and is thrown away
  std::shared_ptr<ShmReceive> receive;
  std::shared_ptr<ShmUnexpected> unexpected;
};

// Externally synchronized. Never waits.
class ShmPeer {
 public:
  ShmPeer(RingWriter out, RingReader in) : out_(out), in_(in) {}

  void send(std::shared_ptr<ShmSend> send);
  void receive(std::shared_ptr<ShmReceive> receive);
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
  [[nodiscard]] bool idle() const noexcept { return sends_.empty() && !reading_for_somebody(); }

 private:
  void pump_out(Moved& moved);
  void pump_in(Moved& moved);
  void begin_incoming();
  void end_incoming(Moved& moved);
  static void hand_over(const ShmUnexpected& message, ShmReceive& receive);
  [[nodiscard]] bool reading_for_somebody() const noexcept;

  RingWriter out_;
  RingReader in_;
  std::deque<std::shared_ptr<ShmSend>> sends_;        // the first is under way
  std::deque<std::shared_ptr<ShmReceive>> receives_;  // posted, nothing has come for them
  std::deque<std::shared_ptr<ShmUnexpected>> unexpected_;
  std::optional<ShmIncoming> incoming_;
  bool blocked_ = false;  // the peer was asked to tell of room
};

}  // namespace kolo::transport

#pragma once
// Where ranks that are threads meet: one mailbox per ordered pair of ranks, one bell per rank.
//
//   rank 0 --send--> [ messages nobody wants yet | receives nothing came for ] <--receive-- rank 1
//                    the mailbox 0>1
//
// At most one of the two lists has an entry for a given tag. Whoever comes second copies, straight from the sender's
// memory into the receiver's; only small messages that come first are copied into the mailbox, so that their send is
// complete at once.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace kolo::transport {

// One transfer's outcome, shared by its handle and the mailbox, either of which may let go first. `size` and
// `too_long` are written before `done` is released.
struct InprocState {
  std::atomic<bool> done{false};
  std::size_t size = 0;
  bool too_long = false;  // of a receive: the message did not fit
};

struct InprocMessage {
  Tag tag;
  std::span<const std::byte> data;    // the sender's memory, or `copy`
  std::vector<std::byte> copy;        // of a small message
  std::shared_ptr<InprocState> send;  // null: the send has completed
};

struct InprocReceive {
  Tag tag;
  std::span<std::byte> into;
  std::shared_ptr<InprocState> state;
};

struct InprocMailbox {
  std::mutex mutex;
  std::deque<InprocMessage> messages;
  std::deque<InprocReceive> receives;
};

// Counts events, so that one between a look and a wait is not missed.
class InprocBell {
 public:
  void ring() noexcept;
  // Returns when it was rung since the last wait, or after `at_most`. From one thread.
  void wait(std::chrono::microseconds at_most);

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
  std::uint64_t count_ = 0;
  std::uint64_t seen_ = 0;
};

// Thread-safe.
class InprocHub {
 public:
  explicit InprocHub(int ranks);
  [[nodiscard]] int size() const noexcept { return size_; }
  void send(Rank from, Rank to, InprocMessage message);
  void receive(Rank from, Rank to, InprocReceive receive);
  // The handle of this transfer goes and its memory may follow. A message keeps a copy of it, a receive still takes its
  // message, to nowhere.
  void abandon(Rank from, Rank to, const InprocState& state) noexcept;
  // Whether that rank's end was destroyed. What it left behind in mailboxes can still be received.
  [[nodiscard]] bool left(Rank rank) const noexcept;
  void leave(Rank rank) noexcept;
  [[nodiscard]] InprocBell& bell(Rank rank) noexcept { return ends_[static_cast<std::size_t>(rank)].bell; }

 private:
  struct End {
    InprocBell bell;
    std::atomic<bool> left{false};
  };
  [[nodiscard]] InprocMailbox& mailbox(Rank from, Rank to) noexcept {
    return mailboxes_[static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to)];
  }

  int size_;
  std::vector<End> ends_;
  std::vector<InprocMailbox> mailboxes_;
};

}  // namespace kolo::transport

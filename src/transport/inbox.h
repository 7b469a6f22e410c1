#pragma once
// Which message from one peer belongs to which receive, where messages come one after another as bytes:
//
//   begin(tag, length)  advance(n) advance(n) ...  end()     begin(...) ...
//
// They go straight into the receive that waits for them. One that came too early is kept, and copied when its receive
// comes; one that is longer than its receive goes nowhere.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace kolo::transport {

// Shared by the transfer's handle and the inbox, either of which may let go first.
struct PostedReceive {
  Tag tag = 0;
  std::span<std::byte> into;
  std::size_t size = 0;
  bool done = false;
  bool abandoned = false;  // its memory is not touched any more
  // REQUIRES: done.
  [[nodiscard]] bool fits() const noexcept { return size <= into.size(); }
};

// Externally synchronized. Never waits.
class Inbox {
 public:
  void post(std::shared_ptr<PostedReceive> receive);
  // Whether some receive of this rank is not complete: what nobody waits for may stay where it is.
  [[nodiscard]] bool wanted() const noexcept;

  // A message whose begin() has been called and whose end() has not.
  [[nodiscard]] bool reading() const noexcept { return incoming_.has_value(); }
  void begin(Tag tag, std::size_t length);
  // Whether a message of this tag would go straight into its receive.
  [[nodiscard]] bool expects(Tag tag) const noexcept;
  // Of messages that came before their receive, and so are copied once more. So far.
  [[nodiscard]] std::uint64_t early_bytes() const noexcept { return early_bytes_; }
  // REQUIRES for these: reading(). Where the next bytes go (null: nowhere), and how many are to come.
  [[nodiscard]] std::byte* to() const noexcept {
    return incoming_->receive && incoming_->receive->abandoned ? nullptr : incoming_->to;
  }
  [[nodiscard]] std::size_t rest() const noexcept { return incoming_->rest; }
  void advance(std::size_t count) noexcept;
  // REQUIRES: rest() is 0. True when a receive is complete now.
  bool end();

 private:
  struct Unexpected {
    Tag tag = 0;
    std::unique_ptr<std::byte[]> data;  // not written before it comes
    std::size_t size = 0;
    bool whole = false;
    std::shared_ptr<PostedReceive> claimed;  // posted while it was still coming in
  };
  struct Incoming {
    std::size_t rest = 0;
    std::byte* to = nullptr;
    std::shared_ptr<PostedReceive> receive;  // one of the two
    std::shared_ptr<Unexpected> unexpected;
  };
  using Receives = std::deque<std::shared_ptr<PostedReceive>>;
  [[nodiscard]] Receives::const_iterator find(Tag tag) const noexcept;
  static void hand_over(const Unexpected& message, PostedReceive& receive);

  Receives receives_;  // nothing has come for them
  std::deque<std::shared_ptr<Unexpected>> unexpected_;
  std::optional<Incoming> incoming_;
  std::uint64_t early_bytes_ = 0;
};

// For the handle of a send that is destroyed: what is not sent yet is sent from a copy, so that the memory is free.
template <class Send>
void keep_copy(Send& send) {
  if (send.done) return;
  send.own.assign(send.data.begin(), send.data.end());
  send.data = send.own;
}
// For the handle of a receive that is destroyed.
inline void abandon(PostedReceive& receive) noexcept {
  if (receive.done) return;
  receive.abandoned = true;
  receive.into = {};
}

// BackendError: the message from `from` ("rank 3") was longer than its buffer. REQUIRES: !receive.fits().
[[noreturn]] void throw_too_long(const PostedReceive& receive, const std::string& from);

}  // namespace kolo::transport

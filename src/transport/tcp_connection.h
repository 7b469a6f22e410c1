#pragma once
// The two directions between two ranks over TCP. Who has something to send calls, and whoever has been called by then
// answers on the same connection, so that the kernel's acknowledgements travel with the messages:
//
//   caller:    [ TcpGreeting ][ TcpHeader | payload ][ TcpHeader | payload ] ... [ TcpHeader: farewell ]
//   answerer:                 [ TcpHeader | payload ] ...                        [ TcpHeader: farewell ]
//
// Two that call each other at the same moment have two connections and use one direction of each: nobody has to agree
// on one of them. So that this is rare, the higher rank waits a moment before it calls.
//
// Sockets are registered for edges: an end is told once that it may read or write, and believes so until the kernel
// says EAGAIN. So a socket costs no system call while nobody waits for it.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "cluster/socket_address.h"
#include "cluster/token.h"
#include "transport/inbox.h"

namespace kolo::transport {

// Numbers are the machines' own, as those in payloads are; both ends are little-endian.
static_assert(std::endian::native == std::endian::little);

struct TcpGreeting {
  cluster::Token token{};
  std::uint32_t version = 1;
  Rank from = 0;
};

struct TcpHeader {
  static constexpr std::uint32_t kMessage = 0;
  static constexpr std::uint32_t kFarewell = 1;  // the sender ends in order; the last on a connection
  std::uint64_t length = 0;
  Tag tag = 0;
  std::uint32_t kind = kMessage;
};

[[nodiscard]] inline TcpHeader farewell() noexcept { return {.kind = TcpHeader::kFarewell}; }

// Shared by the transfer's handle and the queue, either of which may let go first.
struct TcpSend {
  TcpHeader header;
  std::span<const std::byte> data;
  std::size_t sent = 0;        // of header and data together
  bool done = false;           // all of it is with the kernel
  std::vector<std::byte> own;  // of a send that was abandoned: a message that has begun must end
};

// The end that sends. Externally synchronized, as all here. Never waits.
class TcpOutgoing {
 public:
  enum class State { none, calling, open, failed };
  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] int error() const noexcept { return error_; }  // errno of what failed; 0: the peer closed its end

  [[nodiscard]] bool idle() const noexcept { return sends_.empty(); }

  // Begins a connection. REQUIRES: state() is none.
  void call(const cluster::SocketAddress& address, const TcpGreeting& greeting, const std::string& congestion_control);
  // Takes the peer's call for its own. REQUIRES: state() is none.
  void answer_on(base::UniqueFd socket);
  void queue(std::shared_ptr<TcpSend> send) { sends_.push_back(std::move(send)); }
  // The kernel says that something is new about the socket. `ended`: the peer has closed it, or it has failed.
  void notice(bool writable, bool ended);
  [[nodiscard]] bool has_work() const noexcept { return writable_ && has_rest(); }
  // Hands what it can to the kernel. True when a send is complete now.
  bool pump();
  // Behind what is queued, all of which must be its own by now: nothing is sent afterwards. What the kernel has no room
  // for yet, or all of it while there is no connection yet, is left to say_rest().
  void say_farewell();
  [[nodiscard]] bool has_rest() const noexcept {
    return (state_ == State::calling || state_ == State::open) && !sends_.empty();
  }
  void say_rest();
  // Whether the kernel has something of ours that the peer's has not got.
  [[nodiscard]] bool unacknowledged() const noexcept;

 private:
  void fail(int error) noexcept;

  State state_ = State::none;
  base::UniqueFd socket_;
  TcpGreeting greeting_;
  bool writable_ = false;
  int error_ = 0;
  std::deque<std::shared_ptr<TcpSend>> sends_;  // the first is under way
};

// The end that receives, behind the greeting.
class TcpIncoming {
 public:
  explicit TcpIncoming(base::UniqueFd socket);
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  // As of TcpOutgoing. What has come before the end can still be read.
  void notice(bool readable, bool ended) noexcept;
  // Asks the kernel at once.
  void ask() noexcept;
  // Whether pump() would do something for the receives of `inbox`.
  [[nodiscard]] bool has_work(const Inbox& inbox) const noexcept;
  // Takes what has come while somebody waits for it, and after its end all that is left. True when a receive is
  // complete now.
  bool pump(Inbox& inbox);
  // Throws away what has come, and sees whether that is the end.
  void discard() noexcept;
  // Nothing more will come: the peer said farewell, or it did not.
  [[nodiscard]] bool ended() const noexcept { return over_; }
  [[nodiscard]] bool heard_farewell() const noexcept { return farewell_; }
  [[nodiscard]] bool heard_anything() const noexcept { return heard_; }

 private:
  bool parse(Inbox& inbox, bool& completed);
  std::size_t fill(Inbox& inbox);
  [[nodiscard]] std::size_t staged() const noexcept { return end_ - begin_; }

  base::UniqueFd socket_;
  std::vector<std::byte> staging_;  // what has been read and belongs nowhere yet: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool readable_ = true;
  bool ending_ = false;  // the kernel has said so; there may be bytes before it
  bool over_ = false;
  bool farewell_ = false;
  bool heard_ = false;
};

}  // namespace kolo::transport

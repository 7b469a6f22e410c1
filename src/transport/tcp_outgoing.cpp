#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "cluster/listener.h"
#include "transport/congestion_control.h"
#include "transport/tcp_connection.h"

namespace kolo::transport {
namespace {

constexpr std::size_t kMostTogether = 16;  // messages given to the kernel in one call

// Of what the kernel holds beyond what it has sent: copied early it only leaves the caches. What is on its way is the
// congestion control's matter. A kernel that refuses goes on as it does. docs/decisions/0005
constexpr int kMostUnsent = 128 << 10;
constexpr int kAsTheSystem = 0;

void limit_unsent(int socket, int bytes) noexcept {
  static_cast<void>(setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes));
}

iovec part(const void* begin, std::size_t size, std::size_t skip) {
  return {const_cast<std::byte*>(static_cast<const std::byte*>(begin)) + skip, size - skip};
}

}  // namespace

void TcpOutgoing::call(const cluster::SocketAddress& address, const TcpGreeting& greeting,
                       const std::string& congestion_control) {
  socket_ = cluster::make_tcp_socket(address.family());
  if (!socket_) return fail(errno);
  set_congestion_control(socket_.get(), congestion_control);
  limit_unsent(socket_.get(), kMostUnsent);
  state_ = State::calling;
  if (connect(socket_.get(), address.get(), address.length) != 0 && errno != EINPROGRESS) return fail(errno);
  // It goes first, and so does not need a header.
  auto first = std::make_shared<TcpSend>();
  first->sent = sizeof(TcpHeader);
  greeting_ = greeting;
  first->data = std::as_bytes(std::span(&greeting_, 1));
  sends_.push_front(std::move(first));
}

void TcpOutgoing::fail(int error) noexcept {
  if (state_ == State::failed) return;
  state_ = State::failed;
  error_ = error;
  socket_.reset();
}

void TcpOutgoing::answer_on(base::UniqueFd socket) {
  socket_ = std::move(socket);
  limit_unsent(socket_.get(), kMostUnsent);
  state_ = State::open;
}

void TcpOutgoing::notice(bool writable, bool ended) {
  if (state_ == State::failed) return;
  if (state_ == State::calling && (writable || ended)) {
    if (const int error = cluster::error_of(socket_.get()); error != 0) return fail(error);
    state_ = State::open;
  }
  if (ended) return fail(cluster::error_of(socket_.get()));
  if (writable) writable_ = true;
}

bool TcpOutgoing::pump() {
  bool completed = false;
  while (has_work()) {
    std::array<iovec, 2 * kMostTogether> parts{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < std::min(sends_.size(), kMostTogether); ++i) {
      const TcpSend& send = *sends_[i];
      constexpr std::size_t kHeader = sizeof(TcpHeader);
      if (send.sent < kHeader) parts[count++] = part(&send.header, kHeader, send.sent);
      if (!send.data.empty()) {
        parts[count++] = part(send.data.data(), send.data.size(), std::max(send.sent, kHeader) - kHeader);
      }
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t written = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      writable_ = false;
      if (errno != EAGAIN) fail(errno);
      return completed;
    }
    for (auto rest = static_cast<std::size_t>(written); rest > 0;) {
      TcpSend& send = *sends_.front();
      const std::size_t taken = std::min(rest, sizeof(TcpHeader) + send.data.size() - send.sent);
      send.sent += taken;
      rest -= taken;
      if (send.sent < sizeof(TcpHeader) + send.data.size()) break;
      send.done = true;
      completed = true;
      sends_.pop_front();
    }
  }
  return completed;
}

bool TcpOutgoing::unacknowledged() const noexcept {
  int bytes = 0;
  return state_ == State::open && ioctl(socket_.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void TcpOutgoing::say_farewell() {
  if (state_ != State::calling && state_ != State::open) return;
  limit_unsent(socket_.get(), kAsTheSystem);  // what the kernel has, it delivers though nobody looks any more
  auto last = std::make_shared<TcpSend>();
  last->header = farewell();
  sends_.push_back(std::move(last));
  say_rest();
}

void TcpOutgoing::say_rest() {
  if (state_ != State::open) return;
  writable_ = true;
  pump();
}

}  // namespace kolo::transport

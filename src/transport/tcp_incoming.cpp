#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/tcp_connection.h"

namespace kolo::transport {
namespace {

// Some small messages; of a long one, no more than costs little to copy once more.
constexpr std::size_t kStaging = std::size_t{4} << 10;
// One connection's turn, after which others have theirs.
constexpr std::size_t kMostAtATime = std::size_t{1} << 20;

}  // namespace

TcpIncoming::TcpIncoming(base::UniqueFd socket) : socket_(std::move(socket)), staging_(kStaging) {}

void TcpIncoming::notice(bool readable, bool ended) noexcept {
  if (readable) readable_ = true;
  if (ended) readable_ = ending_ = true;
}

void TcpIncoming::ask() noexcept {
  pollfd asked{.fd = socket_.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
  if (poll(&asked, 1, 0) <= 0) return;
  notice((asked.revents & POLLIN) != 0, (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

bool TcpIncoming::has_work(const Inbox& inbox) const noexcept {
  if (ending_ && !over_) return true;
  if (!inbox.wanted()) return false;
  if (!over_ && readable_) return true;
  return inbox.reading() ? staged() > 0 : staged() >= sizeof(TcpHeader);
}

bool TcpIncoming::pump(Inbox& inbox) {
  bool completed = false;
  bool goes_on = parse(inbox, completed);
  for (std::size_t taken = 0; goes_on && taken < kMostAtATime && !over_ && readable_ && (inbox.wanted() || ending_);) {
    taken += fill(inbox);
    goes_on = parse(inbox, completed);
  }
  return completed;
}

// Works off what has been read; `completed` when a receive is complete now. False where a message stands that nobody
// waits for yet, but somebody may in a moment, who has just got another one: taken now, it would be copied once more.
bool TcpIncoming::parse(Inbox& inbox, bool& completed) {
  while (true) {
    if (inbox.reading()) {
      const std::size_t count = std::min(staged(), inbox.rest());
      if (count > 0 && inbox.to() != nullptr) std::memcpy(inbox.to(), staging_.data() + begin_, count);
      begin_ += count;
      inbox.advance(count);
      if (inbox.rest() > 0) return true;
      if (inbox.end()) completed = true;
    }
    if (!(inbox.wanted() || ending_) || staged() < sizeof(TcpHeader)) return true;
    TcpHeader header;
    std::memcpy(&header, staging_.data() + begin_, sizeof header);
    const bool may_wait = completed && !ending_;  // before an end everything is taken, and what was said last known
    if (header.kind == TcpHeader::kMessage && may_wait && !inbox.expects(header.tag)) return false;
    begin_ += sizeof header;
    if (header.kind == TcpHeader::kFarewell) {
      over_ = farewell_ = true;
      return true;
    }
    inbox.begin(header.tag, static_cast<std::size_t>(header.length));
  }
}

// One read: the rest of the message that is coming in goes where it belongs, what follows it to the staging. Returns
// how many bytes came.
std::size_t TcpIncoming::fill(Inbox& inbox) {
  std::memmove(staging_.data(), staging_.data() + begin_, staged());  // less than a header
  end_ -= std::exchange(begin_, 0);
  const std::size_t direct = inbox.reading() && inbox.to() != nullptr ? inbox.rest() : 0;
  std::array<iovec, 2> parts{{{direct > 0 ? inbox.to() : nullptr, direct}, {staging_.data() + end_, kStaging - end_}}};
  const ssize_t count = readv(socket_.get(), parts.data(), parts.size());
  if (count <= 0) {
    if (count < 0 && errno == EINTR) return 0;
    readable_ = false;
    if (count == 0 || errno != EAGAIN) over_ = true;
    return 0;
  }
  heard_ = true;
  const auto bytes = static_cast<std::size_t>(count);
  if (direct > 0) inbox.advance(std::min(bytes, direct));
  end_ += bytes - std::min(bytes, direct);
  if (bytes < direct + parts[1].iov_len && !ending_) readable_ = false;  // that was all
  return bytes;
}

void TcpIncoming::discard() noexcept {
  for (std::size_t taken = 0; taken < kMostAtATime;) {
    const ssize_t count = recv(socket_.get(), staging_.data(), kStaging, 0);
    if (count <= 0) {
      if (count == 0 || errno != EAGAIN) over_ = true;
      return;
    }
    taken += static_cast<std::size_t>(count);
  }
}

}  // namespace kolo::transport

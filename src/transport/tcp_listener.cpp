#include "transport/tcp_listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/system_error.h"
#include "cluster/listener.h"
#include "kolo/error.h"

namespace kolo::transport {

TcpListener::TcpListener(base::UniqueFd listener, const cluster::Token& token, int ranks)
    : listener_(std::move(listener)), token_(token), ranks_(ranks) {
  epoll_.add(listener_.get(), EPOLLIN, 0);
}

std::vector<TcpListener::Caller> TcpListener::callers() {
  std::vector<Caller> known;
  for (auto events = epoll_.wait({}); !events.empty(); events = epoll_.wait({})) {
    for (const epoll_event& event : events) {
      if (event.data.u64 == 0) {
        accept(known);
        continue;
      }
      const auto found = strangers_.find(event.data.u64);
      if (found == strangers_.end()) continue;  // gone since: others came
      Stranger& stranger = found->second;
      const Verdict verdict = hear(stranger);
      if (verdict == Verdict::wait) continue;
      epoll_.remove(stranger.socket.get());
      if (verdict == Verdict::admit) known.push_back({stranger.greeting.from, std::move(stranger.socket)});
      strangers_.erase(found);
    }
  }
  return known;
}

void TcpListener::accept(std::vector<Caller>& known) {
  while (true) {
    base::UniqueFd socket = cluster::accept_at(listener_.get());
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      throw BackendError("tcp: cannot accept a connection: " + base::errno_text(errno) +
                         ". If descriptors have run out, raise `ulimit -n`");
    }
    Stranger stranger{std::move(socket), 0, {}};
    switch (hear(stranger)) {
      case Verdict::refuse:
        break;
      case Verdict::admit:
        known.push_back({stranger.greeting.from, std::move(stranger.socket)});
        break;
      case Verdict::wait:
        if (strangers_.size() == kMostStrangers) {
          epoll_.remove(strangers_.begin()->second.socket.get());
          strangers_.erase(strangers_.begin());
        }
        epoll_.add(stranger.socket.get(), EPOLLIN, next_);
        strangers_.emplace(next_++, std::move(stranger));
    }
  }
}

// Reads the greeting and nothing of what follows it.
TcpListener::Verdict TcpListener::hear(Stranger& stranger) const {
  auto* const bytes = reinterpret_cast<std::byte*>(&stranger.greeting);
  while (stranger.heard < sizeof(TcpGreeting)) {
    const ssize_t count = recv(stranger.socket.get(), bytes + stranger.heard, sizeof(TcpGreeting) - stranger.heard, 0);
    if (count > 0) {
      stranger.heard += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      return Verdict::wait;
    } else if (count == 0 || errno != EINTR) {
      return Verdict::refuse;
    }
  }
  const TcpGreeting& greeting = stranger.greeting;
  const bool known = cluster::equal(greeting.token, token_) && greeting.version == TcpGreeting{}.version;
  return known && greeting.from >= 0 && greeting.from < ranks_ ? Verdict::admit : Verdict::refuse;
}

}  // namespace kolo::transport

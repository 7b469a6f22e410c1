#include "cluster/monitor_links.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/system_error.h"
#include "cluster/listener.h"

namespace kolo::cluster {
namespace {

using Clock = MonitorLinks::Clock;
using namespace std::chrono_literals;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMostUnsent = std::size_t{4} << 20;  // to a rank that does not read
constexpr auto kTryAgain = 50ms;
constexpr auto kDeaf = 1s;
constexpr auto kAtOnce = 500ms;
constexpr auto kNever = Clock::time_point::max();

void append_frame(std::vector<std::byte>& out, const Message& message) {
  const auto bytes = encode(message);
  for (std::size_t i = 0; i < kLengthBytes; ++i) out.push_back(static_cast<std::byte>(bytes.size() >> (8 * i)));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::size_t frame_length(std::span<const std::byte> head) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::size_t>(head[i]) << (8 * i);
  return length;
}

}  // namespace

struct MonitorLinks::Link {
  enum class State { calling, greeting, resting, stranger, open, dropped };
  State state = State::stranger;
  Rank rank = -1;  // unknown of strangers
  base::UniqueFd socket;
  std::vector<std::byte> in;
  std::vector<std::byte> out;
  Clock::time_point begun{};     // of calls
  Clock::time_point deadline{};  // of all states but open; kNever: none
  Clock::duration call_left{};   // greeting: what is left of the call's own time, should it have to be made again
  Clock::time_point next_try{};  // resting: after a call that was cut short
  Clock::time_point heard{};
  bool probe = false;
  bool refused = false;  // at once; not told yet
  int no_socket = 0;     // errno: why the last call could not even be tried
};

MonitorLinks::MonitorLinks(LinksParts parts, LinksHost& host) : parts_(std::move(parts)), host_(host) {}
MonitorLinks::~MonitorLinks() = default;

MonitorLinks::Link* MonitorLinks::find(Rank rank) { return const_cast<Link*>(std::as_const(*this).find(rank)); }

const MonitorLinks::Link* MonitorLinks::find(Rank rank) const {
  const auto [begin, end] = of_rank_.equal_range(rank);
  for (auto link = begin; link != end; ++link) {
    if (link->second->state == Link::State::open) return link->second;
  }
  return nullptr;
}

bool MonitorLinks::connected(Rank rank) const { return find(rank) != nullptr; }

std::vector<Rank> MonitorLinks::connected_ranks() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, link] : of_rank_) {
    if (link->state == Link::State::open && (ranks.empty() || ranks.back() != rank)) ranks.push_back(rank);
  }
  return ranks;
}

Clock::time_point MonitorLinks::heard(Rank rank) const {
  Clock::time_point last{};
  const auto [begin, end] = of_rank_.equal_range(rank);
  for (auto link = begin; link != end; ++link) {
    if (link->second->state == Link::State::open) last = std::max(last, link->second->heard);
  }
  return last;
}

void MonitorLinks::forgive(Clock::duration away) {
  for (const auto& link : links_) {
    link->heard += away;
    link->begun += away;
    if (link->deadline != kNever) link->deadline += away;
  }
}

void MonitorLinks::close_all() {
  for (const auto& link : links_) {
    if (link->state == Link::State::open || link->state == Link::State::greeting) {
      // What was sent arrives if nothing unread is left here: the system would else reset the connection.
      shutdown(link->socket.get(), SHUT_WR);
      std::array<std::byte, kReadBytes> bytes;
      while (recv(link->socket.get(), bytes.data(), bytes.size(), 0) > 0) {
      }
    }
    drop(*link);
  }
  parts_.listener.reset();  // who calls now learns at once that nobody is here
}

bool MonitorLinks::all_sent() const {
  return std::ranges::all_of(links_, [](const auto& link) { return !link->socket || link->out.empty(); });
}

void MonitorLinks::call(Rank rank) {
  const auto [begin, end] = of_rank_.equal_range(rank);
  if (std::any_of(begin, end, [](const auto& link) { return !link.second->probe; })) return;
  begin_call(rank, false);
}

void MonitorLinks::probe(Rank rank) { begin_call(rank, true); }

void MonitorLinks::begin_call(Rank rank, bool probe) {
  auto link = std::make_unique<Link>();
  link->rank = rank;
  link->probe = probe;
  link->begun = Clock::now();
  link->deadline = link->begun + parts_.call_time;
  of_rank_.emplace(rank, link.get());
  start_call(*links_.emplace_back(std::move(link)));
}

// What becomes of it is told later, also where connect() knows at once: callers are not called back.
void MonitorLinks::start_call(Link& link) {
  const auto& address = parts_.addresses[static_cast<std::size_t>(link.rank)];
  link.socket = make_tcp_socket(address.family());
  link.state = Link::State::calling;
  link.in.clear();
  link.out.clear();
  link.no_socket = link.socket ? 0 : errno;
  if (!link.socket) {
    try_again(link);
    return;
  }
  if (connect(link.socket.get(), address.get(), address.length) == 0 || errno == EINPROGRESS) return;
  link.refused = errno == ECONNREFUSED;
  try_again(link);
}

// What this process lacks is no fault of the rank that it wants to call: the call has as much time once more.
bool MonitorLinks::lacks_socket(Link& link) {
  if (link.no_socket == 0 || link.probe) return false;
  if (!std::exchange(out_of_sockets_, true)) host_.out_of_sockets(link.rank, base::errno_text(link.no_socket));
  link.begun = Clock::now();
  link.deadline = link.begun + parts_.call_time;
  return true;
}

void MonitorLinks::try_again(Link& link) {
  if (link.state == Link::State::greeting && !link.probe) link.deadline = Clock::now() + link.call_left;
  link.socket.reset();
  link.state = Link::State::resting;
  link.next_try = Clock::now() + (link.refused ? 0ms : kTryAgain);
}

// The socket of a call has become writable, or has failed.
void MonitorLinks::called(Link& link) {
  const int error = error_of(link.socket.get());
  const Rank rank = link.rank;
  if (error == ECONNREFUSED) {
    refused(link);
  } else if (error != 0) {
    try_again(link);
  } else {
    await_greeting(link);
    append_frame(link.out, Greeting{parts_.token, parts_.rank, rank});
    write(link);
  }
}

// The host is there. A rank that is only stopped is given as long as one whose connection falls silent; a probe is
// about one that is lost already.
void MonitorLinks::await_greeting(Link& link) {
  link.state = Link::State::greeting;
  if (link.probe) return;
  const auto now = Clock::now();
  link.call_left = link.deadline - now;
  link.deadline = parts_.greeting_time.count() == 0 ? kNever : now + parts_.greeting_time;
}

void MonitorLinks::refused(Link& link) {
  const Rank rank = link.rank;
  const bool at_once = Clock::now() < link.begun + kAtOnce;
  drop(link);
  waiting_.erase(rank);
  host_.refused(rank, at_once);
}

void MonitorLinks::send(Rank to, const Message& message) {
  Link* link = find(to);
  if (link == nullptr) {
    auto& waiting = waiting_[to];
    if (waiting.size() <= kMostUnsent) append_frame(waiting, message);
    call(to);
    return;
  }
  if (link->out.size() > kMostUnsent) return;  // it is stopped, and will be found so
  append_frame(link->out, message);
  write(*link);
}

void MonitorLinks::beat() {
  for (const auto& link : links_) {
    if (link->state != Link::State::open || !link->out.empty()) continue;
    append_frame(link->out, Beat{});
    write(*link);
  }
}

void MonitorLinks::say_goodbye() {
  for (const auto& link : links_) {
    if (link->state != Link::State::open && link->state != Link::State::greeting) continue;
    append_frame(link->out, Goodbye{});
    write(*link);
  }
}

void MonitorLinks::add_to(std::vector<pollfd>& entries) {
  sweep();
  polled_.clear();
  listener_polled_ = Clock::now() >= deaf_until_;
  if (listener_polled_) entries.push_back({parts_.listener.get(), POLLIN, 0});
  for (const auto& link : links_) {
    if (!link->socket) continue;
    const bool calling = link->state == Link::State::calling;
    const auto events = static_cast<short>((calling ? 0 : POLLIN) | (calling || !link->out.empty() ? POLLOUT : 0));
    entries.push_back({link->socket.get(), events, 0});
    polled_.push_back(link.get());
  }
}

void MonitorLinks::handle(std::span<const pollfd> entries) {
  if (listener_polled_ && entries.front().revents != 0) accept_strangers();
  entries = entries.subspan(listener_polled_ ? 1 : 0);
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    Link& link = *polled_[i];
    if (entries[i].revents == 0 || link.state == Link::State::dropped) continue;
    if (link.state == Link::State::calling) {
      called(link);
      continue;
    }
    if ((entries[i].revents & POLLOUT) != 0) write(link);
    if ((entries[i].revents & ~POLLOUT) != 0 && link.state != Link::State::dropped) read(link);
  }
}

void MonitorLinks::accept_strangers() {
  for (int i = 0; i < 16; ++i) {  // then it is the others' turn
    base::UniqueFd socket = accept_at(parts_.listener.get());
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) deaf_until_ = Clock::now() + kDeaf;
      return;
    }
    const auto stranger = [](const auto& link) { return link->state == Link::State::stranger; };
    if (static_cast<std::size_t>(std::ranges::count_if(links_, stranger)) >= kMostStrangers) {
      drop(**std::ranges::find_if(links_, stranger));
    }
    auto link = std::make_unique<Link>();
    link->socket = std::move(socket);
    link->deadline = Clock::now() + kGreetingTime;
    links_.push_back(std::move(link));
  }
}

void MonitorLinks::read(Link& link) {
  std::array<std::byte, kReadBytes> bytes;
  const bool known = link.state == Link::State::open;
  // Of others no more than what a greeting still lacks.
  const std::size_t most = known ? bytes.size() : kLengthBytes + kGreetingBytes - link.in.size();
  const ssize_t count = recv(link.socket.get(), bytes.data(), most, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count > 0) {
    take_in(link, std::span(bytes).first(static_cast<std::size_t>(count)));
    return;
  }
  const Rank rank = link.rank;
  if (link.state == Link::State::greeting) {
    try_again(link);  // it may have had too many strangers
    return;
  }
  drop(link);
  if (known && !connected(rank)) host_.closed(rank, count == 0);
}

void MonitorLinks::take_in(Link& link, std::span<const std::byte> bytes) {
  link.in.insert(link.in.end(), bytes.begin(), bytes.end());
  link.heard = Clock::now();
  while (link.state != Link::State::dropped && link.state != Link::State::resting && parse(link)) {
  }
}

// One message; false when there is no whole one.
bool MonitorLinks::parse(Link& link) {
  if (link.in.size() < kLengthBytes) return false;
  const std::size_t length = frame_length(link.in);
  const bool known = link.state == Link::State::open;
  const bool allowed = known ? length > 0 && length <= kLongestMessage : length == kGreetingBytes;
  std::optional<Message> message;
  if (allowed) {
    if (link.in.size() < kLengthBytes + length) return false;
    message = decode(std::span(link.in).subspan(kLengthBytes, length));
  }
  if (message && known) {
    link.in.erase(link.in.begin(), link.in.begin() + static_cast<std::ptrdiff_t>(kLengthBytes + length));
    host_.received(link.rank, std::move(*message));
    return true;
  }
  if (message && greeted(link, *message)) {
    link.in.clear();
    opened(link);
    return true;
  }
  const Rank rank = link.rank;
  drop(link);
  if (known && !connected(rank)) host_.closed(rank, false);
  return false;
}

bool MonitorLinks::greeted(Link& link, const Message& message) {
  const auto* greeting = std::get_if<Greeting>(&message);
  if (greeting == nullptr || !equal(greeting->token, parts_.token) || greeting->to != parts_.rank) return false;
  if (greeting->from == parts_.rank || static_cast<std::size_t>(greeting->from) >= parts_.addresses.size())
    return false;
  if (link.state == Link::State::greeting) return greeting->from == link.rank;
  link.rank = greeting->from;
  of_rank_.emplace(link.rank, &link);
  append_frame(link.out, Greeting{parts_.token, parts_.rank, link.rank});
  return true;
}

void MonitorLinks::opened(Link& link) {
  link.state = Link::State::open;
  if (std::exchange(link.probe, false)) host_.failed(link.rank, false);
  const auto waiting = waiting_.extract(link.rank);
  if (waiting) link.out.insert(link.out.end(), waiting.mapped().begin(), waiting.mapped().end());
  write(link);
}

// Errors show when it is read.
void MonitorLinks::write(Link& link) {
  std::size_t sent = 0;
  while (sent < link.out.size()) {
    const ssize_t count = ::send(link.socket.get(), link.out.data() + sent, link.out.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) {
      if (errno != EAGAIN && errno != EINTR) sent = link.out.size();
      break;
    }
    sent += static_cast<std::size_t>(count);
  }
  link.out.erase(link.out.begin(), link.out.begin() + static_cast<std::ptrdiff_t>(sent));
}

void MonitorLinks::drop(Link& link) {
  const auto [begin, end] = of_rank_.equal_range(link.rank);
  const auto entry = std::find_if(begin, end, [&](const auto& each) { return each.second == &link; });
  if (entry != end) of_rank_.erase(entry);
  link.state = Link::State::dropped;
  link.socket.reset();
}

void MonitorLinks::sweep() {
  std::erase_if(links_, [](const auto& link) { return link->state == Link::State::dropped; });
}

void MonitorLinks::tick() {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < links_.size(); ++i) {  // calls may add to it
    Link& link = *links_[i];
    if (link.state == Link::State::open || link.state == Link::State::dropped) continue;
    if (link.refused) {
      refused(link);
    } else if (now >= link.deadline && !lacks_socket(link)) {
      const Rank rank = link.rank;
      const bool silent = link.state == Link::State::greeting;
      drop(link);
      if (rank < 0) continue;
      waiting_.erase(rank);
      host_.failed(rank, silent);
    } else if (link.state == Link::State::resting && now >= link.next_try) {
      start_call(link);
    }
  }
}

Clock::time_point MonitorLinks::next_time() const {
  auto next = Clock::time_point::max();
  if (!listener_polled_ && deaf_until_ > Clock::time_point{}) next = deaf_until_;
  for (const auto& link : links_) {
    if (link->state == Link::State::open || link->state == Link::State::dropped) continue;
    next =
        std::min(next, link->state == Link::State::resting ? std::min(link->next_try, link->deadline) : link->deadline);
  }
  return next;
}

}  // namespace kolo::cluster

// Messages over TCP: the network's transport wherever there is nothing faster than the kernel's. What MPI over TCP does
// not give: a wait that the kernel ends when something comes, both directions of a link at once, and the end of a peer
// seen as the end of its connections.
//
//   rank 0:  peer 1 [ outgoing ]--------->[ incoming ] peer 0  :rank 1       (tcp_connection.h: on one connection, or
//                   [ incoming ]<---------[ outgoing ]                       on one each)
//            listener: whoever else calls (tcp_listener.h)
//
// Connections are made when a first message is sent. One thread does it all in the calls it makes anyway; all sockets
// are in one epoll. What nobody waits for stays in the kernel, whose buffers hold back a sender that is too fast.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/system_error.h"
#include "cluster/mpi_exit.h"
#include "kolo/error.h"
#include "transport/make.h"
#include "transport/tcp_connection.h"
#include "transport/tcp_listener.h"
#include "transport/tcp_setup.h"

namespace kolo::transport {
namespace {

using Clock = base::Deadline::Clock;

// A connection that ends says that somebody is gone, a monitor says who was the first. It has this long to say so.
constexpr std::chrono::milliseconds kMonitorsTurn{2000};
// How long what was said last may take to arrive, when a transport ends.
constexpr std::chrono::milliseconds kLastWords{2000};
constexpr std::chrono::milliseconds kWordsOfALoss{100};  // all have been told, and a lost host acknowledges nothing
constexpr std::chrono::microseconds kLastWordsLook{100};
// How long a receive waits for its sender to call before this rank does.
constexpr std::chrono::milliseconds kPatience{100};
// How long a lower rank is given to call first.
constexpr std::chrono::milliseconds kPoliteness{2};

enum class Source : std::uint32_t { wake, listener, outgoing, incoming };

std::uint64_t mark(Source source, Rank rank = 0) {
  return std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(rank);
}

[[noreturn]] void throw_out_of_sockets(int error) {
  throw BackendError("tcp: cannot open a connection: " + base::errno_text(error) + ". Raise `ulimit -n`");
}

base::UniqueFd duplicate(int socket) {
  base::UniqueFd copy(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (!copy) throw_out_of_sockets(errno);
  return copy;
}

struct Peer {
  Rank rank = 0;
  Inbox inbox;
  TcpOutgoing out;
  std::unique_ptr<TcpIncoming> in;   // null until there is a connection
  bool has_called = false;           // `in` is of its call; otherwise of ours
  Clock::time_point call_at{};       // when to call, unless it does first
  Clock::time_point waited_since{};  // when a receive first found that nobody has called
  Clock::time_point lost_since{};    // when a transfer first found its connection ended

  [[nodiscard]] bool left() const noexcept { return in && in->heard_farewell(); }
  // Nothing more comes from it.
  [[nodiscard]] bool ended() const noexcept { return in ? in->ended() : out.state() == TcpOutgoing::State::failed; }
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(TcpWorld world, telemetry::Counters& counters);
  ~TcpTransport() override;

  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(peers_.size()); }
  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override;
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override;
  void wait_for_activity(std::chrono::microseconds at_most) override;
  void wake() noexcept override;

  // Moves what can move, unless that has been done since `looks_seen`.
  void look(std::uint64_t& looks_seen);
  // For a transfer that is not complete. Both throw PeerLostError when its connection has ended; but what is sent to a
  // rank that has left in order is as good as sent.
  [[nodiscard]] bool goes_nowhere(Peer& peer);
  void require_source(Peer& peer);

 private:
  Peer& peer(Rank rank);
  void begin(Peer& peer);
  void call(Peer& peer);
  void answer(Peer& peer);
  void call_those_who_do_not();
  void watch_out(Peer& peer);
  void receive_on(Peer& peer, base::UniqueFd socket);
  void handle(std::span<const epoll_event> events);
  void admit();
  void admit_last() noexcept;
  void take_leave(Peer& peer) noexcept;
  void deliver_last_words();
  std::span<const epoll_event> wait(std::chrono::microseconds at_most);
  void pump(Peer& peer);
  void pump_all();
  [[nodiscard]] bool has_work() const noexcept;
  void hear_out(Peer& peer);
  void lost(Peer& peer, const std::string& how);

  Rank rank_;
  TcpGreeting greeting_;
  std::vector<cluster::SocketAddress> addresses_;
  std::string congestion_control_;
  telemetry::Counters& counters_;
  Epoll epoll_;
  TcpListener listener_;
  base::UniqueFd wake_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: nothing was ever sent either way
  std::vector<Peer*> known_;                  // those that are not null
  std::vector<Peer*> to_call_;                // unless they call first
  std::uint64_t looks_ = 0;
  bool leaving_ = false;
  bool completed_ = false;  // something has completed since the last wait
};

class TcpSending final : public Transfer {
 public:
  TcpSending(TcpTransport& transport, Peer& peer, std::shared_ptr<TcpSend> send)
      : transport_(transport), peer_(peer), send_(std::move(send)) {}
  ~TcpSending() override { keep_copy(*send_); }
  bool test() override {
    if (!send_->done) transport_.look(looks_seen_);
    if (!send_->done) send_->done = transport_.goes_nowhere(peer_);
    return send_->done;
  }
  [[nodiscard]] std::size_t size() const noexcept override { return send_->data.size(); }

 private:
  TcpTransport& transport_;
  Peer& peer_;
  std::shared_ptr<TcpSend> send_;
  std::uint64_t looks_seen_ = 0;
};

class TcpReceiving final : public Transfer {
 public:
  TcpReceiving(TcpTransport& transport, Peer& peer, std::shared_ptr<PostedReceive> receive)
      : transport_(transport), peer_(peer), receive_(std::move(receive)) {}
  ~TcpReceiving() override { abandon(*receive_); }
  bool test() override {
    if (!receive_->done) transport_.look(looks_seen_);
    if (!receive_->done) transport_.require_source(peer_);
    if (receive_->done && !receive_->fits()) throw_too_long(*receive_, "rank " + std::to_string(peer_.rank));
    return receive_->done;
  }
  [[nodiscard]] std::size_t size() const noexcept override { return receive_->size; }

 private:
  TcpTransport& transport_;
  Peer& peer_;
  std::shared_ptr<PostedReceive> receive_;
  std::uint64_t looks_seen_ = 0;
};

TcpTransport::TcpTransport(TcpWorld world, telemetry::Counters& counters)
    : rank_(world.rank),
      greeting_{.token = world.token, .from = world.rank},
      addresses_(std::move(world.addresses)),
      congestion_control_(std::move(world.congestion_control)),
      counters_(counters),
      listener_(std::move(world.listener), world.token, static_cast<int>(addresses_.size())),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      peers_(addresses_.size()) {
  if (!wake_) base::throw_errno("eventfd");
  epoll_.add(listener_.descriptor(), EPOLLIN, mark(Source::listener));
  epoll_.add(wake_.get(), EPOLLIN, mark(Source::wake));
}

TcpTransport::~TcpTransport() {
  leaving_ = true;
  admit_last();  // who has just called is told too
  for (Peer* const peer : known_) take_leave(*peer);
  try {
    deliver_last_words();
  } catch (const std::exception&) {
    // Whoever is not told finds the connection closed.
  }
}

// A first message may be among the last words, too: there is no connection then, or one that is still being made.
void TcpTransport::take_leave(Peer& peer) noexcept {
  try {
    if (peer.out.state() == TcpOutgoing::State::none && (peer.has_called || !peer.out.idle())) begin(peer);
    peer.out.say_farewell();
  } catch (const std::exception&) {
    // This one finds the connection closed.
  }
}

// On a socket that is closed with something unread, or that something comes to afterwards, the kernel breaks the
// connection and forgets what it has not sent yet. What its peer's kernel has acknowledged is safe.
void TcpTransport::deliver_last_words() {
  const base::Deadline deadline(somebody_lost() ? kWordsOfALoss : kLastWords);
  const auto unsafe = [](const Peer* peer) {
    return (peer->out.has_rest() || peer->out.unacknowledged()) && !(peer->in && peer->in->ended());
  };
  while (std::any_of(known_.begin(), known_.end(), unsafe) && !deadline.passed()) {
    for (Peer* const peer : known_) {
      if (peer->in) peer->in->discard();
      peer->out.say_rest();
    }
    handle(wait(kLastWordsLook));
    for (Peer* const peer : known_) {
      if (peer->has_called && peer->out.state() == TcpOutgoing::State::none) take_leave(*peer);
    }
  }
}

Peer& TcpTransport::peer(Rank rank) {
  auto& found = peers_[static_cast<std::size_t>(rank)];
  if (!found) {
    found = std::make_unique<Peer>();
    found->rank = rank;
    known_.push_back(found.get());
  }
  return *found;
}

std::unique_ptr<Transfer> TcpTransport::send(Rank to, Tag tag, std::span<const std::byte> data) {
  Peer& target = peer(to);
  auto state = std::make_shared<TcpSend>();
  state->header.length = data.size();
  state->header.tag = tag;
  state->data = data;
  if (target.out.state() == TcpOutgoing::State::none && target.out.idle()) begin(target);
  target.out.queue(state);
  if (target.out.has_work() && target.out.pump()) completed_ = true;
  counters_.messages_sent.add();
  counters_.bytes_on_wire.add(data.size());
  return std::make_unique<TcpSending>(*this, target, std::move(state));
}

// There is something to send, for the first time. Who leaves waits for no call.
void TcpTransport::begin(Peer& peer) {
  if (peer.has_called) {
    answer(peer);
  } else if (peer.rank < rank_ && !leaving_) {
    peer.call_at = Clock::now() + kPoliteness;
    to_call_.push_back(&peer);
  } else {
    call(peer);
  }
}

void TcpTransport::call(Peer& peer) {
  peer.out.call(addresses_[static_cast<std::size_t>(peer.rank)], greeting_, congestion_control_);
  const int error = peer.out.error();
  if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) throw_out_of_sockets(error);
  if (peer.out.state() == TcpOutgoing::State::calling) watch_out(peer);
}

void TcpTransport::answer(Peer& peer) {
  peer.out.answer_on(duplicate(peer.in->socket()));
  watch_out(peer);
}

void TcpTransport::watch_out(Peer& peer) {
  epoll_.add(peer.out.socket(), EPOLLOUT | EPOLLRDHUP | EPOLLET, mark(Source::outgoing, peer.rank));
}

void TcpTransport::receive_on(Peer& peer, base::UniqueFd socket) {
  if (peer.in) epoll_.remove(peer.in->socket());  // its connection stays, as that of `out`
  peer.in = std::make_unique<TcpIncoming>(std::move(socket));
  epoll_.add(peer.in->socket(), EPOLLIN | EPOLLRDHUP | EPOLLET, mark(Source::incoming, peer.rank));
}

void TcpTransport::call_those_who_do_not() {
  std::erase_if(to_call_, [&](Peer* peer) {
    if (peer->out.state() != TcpOutgoing::State::none) return true;
    if (Clock::now() < peer->call_at) return false;
    call(*peer);
    return true;
  });
}

std::unique_ptr<Transfer> TcpTransport::receive(Rank from, Tag tag, std::span<std::byte> into) {
  auto state = std::make_shared<PostedReceive>();
  state->tag = tag;
  state->into = into;
  Peer& source = peer(from);
  source.inbox.post(state);
  return std::make_unique<TcpReceiving>(*this, source, std::move(state));
}

void TcpTransport::look(std::uint64_t& looks_seen) {
  // What has come for others is moved first: often that is all, and the kernel need not be asked.
  if (looks_seen == looks_) {
    ++looks_;
    handle(epoll_.wait({}));
    if (!to_call_.empty()) call_those_who_do_not();
    pump_all();
  }
  looks_seen = looks_;
}

void TcpTransport::handle(std::span<const epoll_event> events) {
  bool called = false;
  for (const epoll_event& event : events) {
    const auto source = static_cast<Source>(event.data.u64 >> 32);
    const auto index = static_cast<std::size_t>(event.data.u64 & 0xffffffffU);
    const bool ended = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (source == Source::listener) called = true;
    if (source == Source::incoming) peers_[index]->in->notice((event.events & EPOLLIN) != 0, ended);
    if (source != Source::outgoing) continue;
    Peer& peer = *peers_[index];
    peer.out.notice((event.events & EPOLLOUT) != 0, ended);
    // It may answer on this connection.
    if (peer.out.state() == TcpOutgoing::State::open && !peer.in && !leaving_) {
      receive_on(peer, duplicate(peer.out.socket()));
    }
  }
  if (called) leaving_ ? admit_last() : admit();
}

// One that cannot be answered is nobody else's matter. The listener would tell of it again and again.
void TcpTransport::admit_last() noexcept {
  try {
    admit();
  } catch (const std::exception&) {
    epoll_.remove(listener_.descriptor());
  }
}

void TcpTransport::admit() {
  for (auto& caller : listener_.callers()) {
    Peer& from = peer(caller.rank);
    if (std::exchange(from.has_called, true)) continue;  // it calls once
    receive_on(from, std::move(caller.socket));          // who calls does not answer on our call
    if (from.out.state() == TcpOutgoing::State::none && !from.out.idle()) answer(from);
  }
}

void TcpTransport::pump(Peer& peer) {
  if (peer.out.has_work() && peer.out.pump()) completed_ = true;
  if (!peer.in || !peer.in->has_work(peer.inbox)) return;
  const std::uint64_t early = peer.inbox.early_bytes();
  if (peer.in->pump(peer.inbox)) completed_ = true;
  counters_.bytes_early.add(peer.inbox.early_bytes() - early);
}

void TcpTransport::pump_all() {
  for (Peer* const peer : known_) pump(*peer);
}

bool TcpTransport::has_work() const noexcept {
  return std::any_of(known_.begin(), known_.end(), [](const Peer* peer) {
    return peer->out.has_work() || (peer->in && peer->in->has_work(peer->inbox));
  });
}

bool TcpTransport::goes_nowhere(Peer& peer) {
  if (peer.out.state() != TcpOutgoing::State::failed) return false;
  if (!peer.left()) hear_out(peer);
  if (peer.left()) return true;
  const int error = peer.out.error();
  // Its transport is gone, and has perhaps never heard of this rank. If that was a death, the monitor knows.
  const bool heard = peer.has_called || (peer.in && peer.in->heard_anything());
  const bool shut = error == 0 || error == ECONNRESET || error == EPIPE;
  if ((error == ECONNREFUSED || (shut && !heard)) && watched()) {
    require_whole();
    return true;
  }
  lost(peer, error == 0 || error == ECONNREFUSED ? "closed its connections without shutting down its Context"
                                                 : "cannot be reached: " + base::errno_text(error));
  return false;
}

void TcpTransport::require_source(Peer& peer) {
  // Nobody has had anything to say yet, and so nobody would see the other end: a call finds out.
  if (!peer.in && peer.out.state() == TcpOutgoing::State::none && peer.out.idle()) {
    if (peer.waited_since == Clock::time_point{}) peer.waited_since = Clock::now();
    if (Clock::now() - peer.waited_since > kPatience) call(peer);
  }
  if (peer.ended() && !peer.left()) hear_out(peer);
  if (peer.ended())
    lost(peer, peer.left() ? "has shut down its Context" : "closed its connections without shutting down its Context");
}

// A peer whose connection has ended: what it said last may be unread yet, on that connection or on one of a call of its
// own.
void TcpTransport::hear_out(Peer& peer) {
  admit();
  if (peer.in) peer.in->ask();
  pump(peer);
}

void TcpTransport::lost(Peer& peer, const std::string& how) {
  require_whole();
  if (watched()) {
    if (peer.lost_since == Clock::time_point{}) peer.lost_since = Clock::now();
    if (Clock::now() - peer.lost_since < kMonitorsTurn) return;
  }
  if (!watched() && !peer.left()) cluster::skip_mpi_finalize();  // a monitor does that for the dead
  throw PeerLostError(peer.rank, "rank " + std::to_string(peer.rank) + ' ' + how);
}

void TcpTransport::wait_for_activity(std::chrono::microseconds at_most) {
  if (std::exchange(completed_, false) || has_work()) return;
  handle(wait(to_call_.empty() ? at_most : std::min<std::chrono::microseconds>(at_most, kPoliteness)));
  if (!to_call_.empty()) call_those_who_do_not();
}

// Until something is new about a socket, or wake().
std::span<const epoll_event> TcpTransport::wait(std::chrono::microseconds at_most) {
  const auto events = epoll_.wait(at_most);
  std::uint64_t count = 0;
  for (const epoll_event& event : events) {
    if (event.data.u64 == mark(Source::wake)) static_cast<void>(::read(wake_.get(), &count, sizeof count));
  }
  return events;
}

void TcpTransport::wake() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

}  // namespace

std::unique_ptr<Transport> make_tcp(TcpWorld world, telemetry::Counters& counters) {
  return std::make_unique<TcpTransport>(std::move(world), counters);
}

std::unique_ptr<Transport> make_tcp(cluster::Bootstrap& bootstrap, const TcpSettings& settings,
                                    telemetry::Counters& counters) {
  return make_tcp(set_up_tcp(bootstrap, settings), counters);
}

}  // namespace kolo::transport

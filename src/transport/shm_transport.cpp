// Messages between processes of one host (or threads: the memory need only be mapped by all). Rank r's slot of the
// shared region holds what others tell it:
//
//   slot r: [ pid, left, sleeping, bell ][ ring 0>r ][ ring 1>r ] ... [ ring n-1>r ]
//
// Nobody makes a system call while both sides are awake. A rank that waits says `sleeping`, looks once more, and sleeps
// on its bell; whoever writes to it, or makes room that it waits for, rings when it sees `sleeping`.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <ctime>
#include <type_traits>
#include <utility>

#include "base/deadline.h"
#include "cluster/mpi_exit.h"
#include "cluster/peer_process.h"
#include "kolo/error.h"
#include "transport/make.h"
#include "transport/shm_peer.h"

namespace kolo::transport {
namespace {

using cluster::PeerProcess;

constexpr std::size_t kLargestRing = std::size_t{256} << 10;
constexpr std::size_t kSmallestRing = std::size_t{16} << 10;
constexpr std::size_t kRingsOfOneRank = std::size_t{4} << 20;  // beyond this all together, rings get smaller
constexpr std::chrono::milliseconds kLookForDeaths{5};         // not oftener
constexpr std::chrono::milliseconds kLongestSleep{100};        // the dead do not ring
constexpr int kTestsBetweenLooks = 4096;

// In shared memory, all zeros at first; reached through std::atomic_ref only.
struct Control {
  alignas(kCacheLine) std::uint32_t bell;
  alignas(kCacheLine) std::uint32_t sleeping;
  alignas(kCacheLine) std::uint32_t left;
  std::int32_t pid;
};

std::size_t ring_bytes(int local_size) {
  const std::size_t share = std::bit_floor(kRingsOfOneRank / static_cast<std::size_t>(local_size));
  return std::clamp(share, kSmallestRing, kLargestRing);
}

// Finds its way in a region.
class Layout {
 public:
  Layout(const SharedRegion& region, int size) : slots_(region.slots()), ring_(ring_bytes(size)) {}
  static std::size_t slot_bytes(int size) {
    return sizeof(Control) + static_cast<std::size_t>(size) * (sizeof(RingControl) + ring_bytes(size));
  }
  [[nodiscard]] Control* control(int rank) const {
    return reinterpret_cast<Control*>(slots_[static_cast<std::size_t>(rank)].data());
  }
  [[nodiscard]] RingControl* ring_control(int from, int to) const {
    return reinterpret_cast<RingControl*>(slots_[static_cast<std::size_t>(to)].data() + sizeof(Control) +
                                          static_cast<std::size_t>(from) * (sizeof(RingControl) + ring_));
  }
  [[nodiscard]] std::span<std::byte> ring(int from, int to) const {
    return {reinterpret_cast<std::byte*>(ring_control(from, to)) + sizeof(RingControl), ring_};
  }

 private:
  std::span<const std::span<std::byte>> slots_;
  std::size_t ring_;
};

// Neither call is the PRIVATE form, which is keyed by address: each process has the word at another address.
//
// Sleeps while `word` is `expected`, for at most `limit`; may return early.
void futex_wait(std::uint32_t& word, std::uint32_t expected, std::chrono::nanoseconds limit) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(seconds.count());
  time.tv_nsec = static_cast<long>((limit - seconds).count());
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

// Wakes all threads that sleep on `word`.
void futex_wake(std::uint32_t& word) noexcept { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void ring_bell(Control& control) noexcept {
  std::atomic_ref(control.bell).fetch_add(1);
  futex_wake(control.bell);
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::unique_ptr<SharedRegion> region, int rank, std::vector<PeerProcess> processes)
      : region_(std::move(region)), rank_(rank), processes_(std::move(processes)) {
    const Layout layout(*region_, size());
    for (int peer = 0; peer < size(); ++peer) {
      controls_.push_back(layout.control(peer));
      peers_.emplace_back(RingWriter(layout.ring_control(rank, peer), layout.ring(rank, peer)),
                          RingReader(layout.ring_control(peer, rank), layout.ring(peer, rank)));
    }
  }
  ~ShmTransport() override {
    std::atomic_ref(own().left).store(1);
    for (Control* control : controls_) ring_bell(*control);
    // Also when this rank was told of a death by others and has not seen it itself.
    if (std::any_of(processes_.begin(), processes_.end(), [](const auto& process) { return process.dead(); })) {
      cluster::skip_mpi_finalize();
    }
  }

  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(processes_.size()); }
  [[nodiscard]] std::unique_ptr<Transfer> send(Rank to, Tag tag, std::span<const std::byte> data) override;
  [[nodiscard]] std::unique_ptr<Transfer> receive(Rank from, Tag tag, std::span<std::byte> into) override;
  void wait_for_activity(std::chrono::microseconds at_most) override;
  void check_peers() override {
    look_for_deaths();
    if (std::find(dead_.begin(), dead_.end(), true) != dead_.end()) name_the_dead();
    require_whole();
  }
  void wake() noexcept override {
    woken_.store(true);
    ring_bell(own());
  }

  void progress() {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) progress(peer);
  }
  // Called for a transfer that is still incomplete. True when its peer cannot complete it any more: what was in the
  // ring when it went has been taken.
  bool lost(Rank peer) {
    if (++fruitless_ % kTestsBetweenLooks == 0) look_for_deaths();
    const auto index = static_cast<std::size_t>(peer);
    if (!dead_[index] && std::atomic_ref(controls_[index]->left).load() == 0) return false;
    progress(index);
    return true;
  }
  [[noreturn]] void throw_lost(Rank peer) const {
    name_the_dead();
    const Rank rank = processes_[static_cast<std::size_t>(peer)].rank();
    throw PeerLostError(rank, "rank " + std::to_string(rank) + " has shut down its Context");
  }

 private:
  // Throws if a process has ended without leaving first. One that left before it ended is no cause of anything: it may
  // have left because of the death.
  void name_the_dead() const {
    for (std::size_t peer = 0; peer < processes_.size(); ++peer) {
      if (std::atomic_ref(controls_[peer]->left).load() == 0) processes_[peer].require_alive();
    }
  }
  [[nodiscard]] Control& own() const noexcept { return *controls_[static_cast<std::size_t>(rank_)]; }

  void progress(std::size_t peer) {
    if (peers_[peer].idle()) return;
    const ShmPeer::Moved moved = peers_[peer].progress();
    if (moved.completed) completed_ = true;
    if ((moved.wrote || moved.made_room) && std::atomic_ref(controls_[peer]->sleeping).load() != 0) {
      ring_bell(*controls_[peer]);
    }
  }

  [[nodiscard]] bool has_work() const noexcept {
    return std::any_of(peers_.begin(), peers_.end(), [](const ShmPeer& peer) { return peer.has_work(); });
  }

  // Whether somebody has gone, told once for each.
  bool look_for_leavers() {
    bool found = false;
    for (std::size_t peer = 0; peer < controls_.size(); ++peer) {
      if (left_[peer] || std::atomic_ref(controls_[peer]->left).load() == 0) continue;
      found = left_[peer] = true;
    }
    return found;
  }
  bool look_for_deaths() {
    const auto now = base::Deadline::Clock::now();
    if (now - looked_ < kLookForDeaths) return false;
    looked_ = now;
    if (cluster::nobody_died(processes_, polled_)) return false;  // one system call, however many they are
    bool found = false;
    for (std::size_t peer = 0; peer < processes_.size(); ++peer) {
      if (dead_[peer] || !processes_[peer].dead()) continue;
      found = dead_[peer] = true;
    }
    return found;
  }

  std::unique_ptr<SharedRegion> region_;
  int rank_;
  std::vector<PeerProcess> processes_;
  std::vector<pollfd> polled_;  // scratch
  std::vector<bool> dead_ = std::vector<bool>(processes_.size(), false);
  std::vector<bool> left_ = std::vector<bool>(processes_.size(), false);
  std::vector<Control*> controls_;  // in region_
  std::vector<ShmPeer> peers_;
  bool completed_ = false;  // something has completed since the last wait
  std::atomic<bool> woken_{false};
  base::Deadline::Clock::time_point looked_{};
  unsigned fruitless_ = 0;
};

// REQUIRES for test(): the transport lives.
template <class State>
class ShmTransfer final : public Transfer {
 public:
  ShmTransfer(ShmTransport& transport, Rank peer, std::shared_ptr<State> state)
      : transport_(transport), peer_(peer), state_(std::move(state)) {}
  ~ShmTransfer() override {
    if constexpr (std::is_same_v<State, PostedReceive>)
      abandon(*state_);
    else
      keep_copy(*state_);
  }

  bool test() override {
    if (!state_->done) transport_.progress();
    if (!state_->done) {
      if (!transport_.lost(peer_)) return false;
      if (!state_->done) transport_.throw_lost(peer_);
    }
    if constexpr (std::is_same_v<State, PostedReceive>) {
      if (!state_->fits()) throw_too_long(*state_, "local rank " + std::to_string(peer_));
    }
    return true;
  }
  [[nodiscard]] std::size_t size() const noexcept override {
    if constexpr (std::is_same_v<State, PostedReceive>)
      return state_->size;
    else
      return state_->data.size();
  }

 private:
  ShmTransport& transport_;
  Rank peer_;
  std::shared_ptr<State> state_;
};

std::unique_ptr<Transfer> ShmTransport::send(Rank to, Tag tag, std::span<const std::byte> data) {
  auto state = std::make_shared<ShmSend>();
  state->tag = tag;
  state->data = data;
  const auto peer = static_cast<std::size_t>(to);
  peers_[peer].send(state);
  progress(peer);
  return std::make_unique<ShmTransfer<ShmSend>>(*this, to, std::move(state));
}

std::unique_ptr<Transfer> ShmTransport::receive(Rank from, Tag tag, std::span<std::byte> into) {
  auto state = std::make_shared<PostedReceive>();
  state->tag = tag;
  state->into = into;
  peers_[static_cast<std::size_t>(from)].receive(state);
  return std::make_unique<ShmTransfer<PostedReceive>>(*this, from, std::move(state));
}

void ShmTransport::wait_for_activity(std::chrono::microseconds at_most) {
  const base::Deadline deadline(at_most);
  std::atomic_ref sleeping(own().sleeping);
  while (!std::exchange(completed_, false) && !woken_.exchange(false)) {
    const std::uint32_t bell = std::atomic_ref(own().bell).load();
    sleeping.store(1);
    const bool now = has_work() || woken_.load() || look_for_leavers();
    if (!now) futex_wait(own().bell, bell, std::min<std::chrono::nanoseconds>(deadline.left(), kLongestSleep));
    sleeping.store(0);
    if (now || std::atomic_ref(own().bell).load() != bell) break;
    if (look_for_deaths() || deadline.passed()) break;
  }
  woken_.store(false);
}

}  // namespace

std::unique_ptr<Transport> make_shm(cluster::Bootstrap& bootstrap, SharedMemory& memory,
                                    std::chrono::milliseconds timeout) {
  const int size = memory.local_size();
  auto region = memory.allocate(Layout::slot_bytes(size), timeout);
  const Layout layout(*region, size);
  std::atomic_ref(layout.control(memory.local_rank())->pid).store(static_cast<std::int32_t>(getpid()));
  // An allocation is a barrier that sees the dead: after it everybody's process is known.
  static_cast<void>(memory.allocate(0, timeout));
  std::vector<PeerProcess> processes;
  for (int peer = 0; peer < size; ++peer) {
    processes.emplace_back(bootstrap.local_ranks()[static_cast<std::size_t>(peer)],
                           std::atomic_ref(layout.control(peer)->pid).load());
  }
  return std::make_unique<ShmTransport>(std::move(region), memory.local_rank(), std::move(processes));
}

}  // namespace kolo::transport

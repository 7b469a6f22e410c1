// Shared memory of processes: every rank makes a memfd for its own slot (so that the pages lie near it) and sends it to
// all ranks of the host over sockets that are connected once.
//
//   rank 0: memfd A -----A---->  rank 1        both map:  slots()[0] = A, slots()[1] = B
//           <------------B----- memfd B
//
// Two exchanges: first the memory, or why there is none; then whether all of it could be mapped. A failure of one rank
// is thus the same error on all of them, at once.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <sstream>

#include "base/system_error.h"
#include "kolo/error.h"
#include "transport/available_memory.h"
#include "transport/make.h"
#include "transport/peer_socket.h"

namespace kolo::transport {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(2);

std::size_t mapped_length(std::size_t bytes) { return std::max(kPage, (bytes + kPage - 1) / kPage * kPage); }

BackendError short_of(std::size_t bytes, Rank rank, int code) {
  return BackendError("no shared memory for " + std::to_string(bytes) + " bytes at rank " + std::to_string(rank) +
                      ": " + base::errno_text(code));
}

class Mapping {
 public:
  // Maps the whole of it and every page at once: no page fault is left for later. `error`: why there is no data().
  Mapping(int memfd, std::size_t bytes, int& error) : length_(mapped_length(bytes)) {
    void* memory = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd, 0);
    if (memory == MAP_FAILED) {
      error = errno;
    } else {
      memory_ = static_cast<std::byte*>(memory);
    }
  }
  Mapping(Mapping&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, length_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return memory_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t length_;
};

class ProcessRegion final : public SharedRegion {
 public:
  ProcessRegion(std::vector<Mapping> mappings, std::size_t bytes) : mappings_(std::move(mappings)) {
    for (const Mapping& mapping : mappings_) slots_.emplace_back(mapping.data(), bytes);
  }
  [[nodiscard]] std::span<const std::span<std::byte>> slots() const noexcept override { return slots_; }

 private:
  std::vector<Mapping> mappings_;
  std::vector<std::span<std::byte>> slots_;
};

struct Peer {
  PeerProcess process;
  base::UniqueFd socket;  // none for this rank itself
};

class ProcessSharedMemory final : public SharedMemory {
 public:
  ProcessSharedMemory(int local_rank, std::vector<Peer> peers) : local_rank_(local_rank), peers_(std::move(peers)) {}
  [[nodiscard]] int local_rank() const noexcept override { return local_rank_; }
  [[nodiscard]] int local_size() const noexcept override { return static_cast<int>(peers_.size()); }

  [[nodiscard]] std::unique_ptr<SharedRegion> allocate(std::size_t bytes, std::chrono::milliseconds timeout) override {
    const base::Deadline deadline(timeout);
    ++sequence_;
    int error = 0;
    const base::UniqueFd mine = make_memory(bytes, error);
    tell({sequence_, bytes, error, local_rank_}, error == 0 ? mine.get() : -1);
    const auto memories = hear(bytes, error, deadline);
    std::vector<Mapping> mappings;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      const base::UniqueFd& memory = peers_[r].socket ? memories[r] : mine;
      if (!memory) {
        error = EMFILE;  // it was sent, and there was no free descriptor for it
      } else {
        mappings.emplace_back(memory.get(), bytes, error);
      }
    }
    tell({sequence_, bytes, error, local_rank_}, -1);
    static_cast<void>(hear(bytes, error, deadline));
    return std::make_unique<ProcessRegion>(std::move(mappings), bytes);
  }

 private:
  void tell(const PeerMessage& message, int descriptor) const {
    for (const Peer& peer : peers_) {
      if (peer.socket) send_to_peer(peer.socket.get(), message, descriptor, peer.process);
    }
  }

  // One message of every peer; the descriptors that came along. Throws what the first rank that failed has said, which
  // may be this one with `own_error`.
  [[nodiscard]] std::vector<base::UniqueFd> hear(std::size_t bytes, int own_error,
                                                 const base::Deadline& deadline) const {
    std::vector<base::UniqueFd> descriptors(peers_.size());
    std::vector<int> errors(peers_.size(), own_error);
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (!peers_[r].socket) continue;
      ReceivedMessage got = take(peers_[r], r, bytes, deadline);
      descriptors[r] = std::move(got.descriptor);
      errors[r] = got.message.error;
    }
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (errors[r] != 0) throw short_of(bytes, peers_[r].process.rank(), errors[r]);
    }
    return descriptors;
  }

  [[nodiscard]] Rank own_rank() const noexcept { return peers_[static_cast<std::size_t>(local_rank_)].process.rank(); }

  // Reserved, not only promised: what is missing shows here and not as SIGBUS later.
  base::UniqueFd make_memory(std::size_t bytes, int& error) const {
    // A memfd has no limit, so reserving too much would wake the kernel's out-of-memory killer. All ranks of the host
    // reserve at the same time.
    if (bytes > available_memory() / peers_.size()) {
      error = ENOMEM;
      return {};
    }
    base::UniqueFd memory(memfd_create("kolo", MFD_CLOEXEC));
    const auto length = static_cast<off_t>(mapped_length(bytes));
    if (!memory || ftruncate(memory.get(), length) != 0) {
      error = errno;
      return {};
    }
    do {
      error = posix_fallocate(memory.get(), 0, length);
    } while (error == EINTR);
    if (error != 0) memory.reset();
    return memory;
  }

  ReceivedMessage take(const Peer& peer, std::size_t local, std::size_t bytes, const base::Deadline& deadline) const {
    while (true) {
      if (!await(peer, deadline)) throw not_there(local);
      ReceivedMessage got = receive_from_peer(peer.socket.get(), peer.process);
      if (got.message.sequence < sequence_) continue;  // of a call that timed out here
      if (got.message.bytes != bytes) {
        throw UsageError("shared memory: rank " + std::to_string(own_rank()) + " asked for " + std::to_string(bytes) +
                         " bytes, rank " + std::to_string(peer.process.rank()) + " for " +
                         std::to_string(got.message.bytes));
      }
      return got;
    }
  }

  // False when the deadline has passed.
  [[nodiscard]] bool await(const Peer& peer, const base::Deadline& deadline) const {
    if (!while_waiting()) return wait_for_peer(peer.socket.get(), peer.process, deadline);
    while (!wait_for_peer(peer.socket.get(), peer.process, base::Deadline(std::min(kSlice, deadline.left())))) {
      while_waiting()();
      if (deadline.passed()) return false;
    }
    return true;
  }

  // Everybody from `first` on who has said nothing yet.
  [[nodiscard]] TimeoutError not_there(std::size_t first) const {
    std::vector<Rank> missing;
    std::ostringstream text;
    text << "allocating shared memory: still waiting for ranks";
    for (std::size_t r = first; r < peers_.size(); ++r) {
      if (!peers_[r].socket) continue;
      if (r != first && wait_for_peer(peers_[r].socket.get(), {}, base::Deadline(std::chrono::nanoseconds{0})))
        continue;
      missing.push_back(peers_[r].process.rank());
      text << ' ' << missing.back();
    }
    return {missing, text.str()};
  }

  int local_rank_;
  std::vector<Peer> peers_;  // by local rank
  std::uint64_t sequence_ = 0;
};

// Connects all pairs: the higher rank calls, the lower one answers.
class Meeting {
 public:
  explicit Meeting(const cluster::Bootstrap& bootstrap)
      : local_rank_(bootstrap.placement().local_rank), ranks_(bootstrap.local_ranks()), peers_(ranks_.size()) {
    if (ranks_.size() > 1) listener_.emplace(static_cast<int>(ranks_.size()));
  }

  [[nodiscard]] std::string card() const {
    return std::to_string(getpid()) + ' ' + (listener_ ? listener_->name() : std::string("-"));
  }

  std::vector<Peer> meet(const std::vector<std::string>& cards, const base::Deadline& deadline) {
    std::vector<std::string> names(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::istringstream text(cards[static_cast<std::size_t>(ranks_[r])]);
      pid_t pid = 0;
      text >> pid >> names[r];
      peers_[r].process = PeerProcess(ranks_[r], pid);
    }
    const auto self = static_cast<std::size_t>(local_rank_);
    for (std::size_t r = 0; r < self; ++r) {
      peers_[r].socket = connect_to_peer(names[r], peers_[r].process, deadline);
      send_to_peer(peers_[r].socket.get(), {0, 0, 0, local_rank_}, -1, peers_[r].process);
    }
    for (std::size_t r = self + 1; r < ranks_.size(); ++r) {
      while (!peers_[r].socket) answer(r, deadline);
    }
    return std::move(peers_);
  }

 private:
  // Takes any one caller, while waiting for `expected` in particular.
  void answer(std::size_t expected, const base::Deadline& deadline) {
    const PeerProcess& process = peers_[expected].process;
    if (!wait_for_peer(listener_->descriptor(), process, deadline)) throw late(expected);
    base::UniqueFd caller = listener_->accept();
    if (!caller) return;
    if (!wait_for_peer(caller.get(), process, deadline)) throw late(expected);
    const int rank = receive_from_peer(caller.get(), process).message.rank;
    if (rank <= local_rank_ || static_cast<std::size_t>(rank) >= peers_.size()) return;
    peers_[static_cast<std::size_t>(rank)].socket = std::move(caller);
  }

  [[nodiscard]] TimeoutError late(std::size_t expected) const {
    return {{ranks_[expected]},
            "connecting the ranks of this host: rank " + std::to_string(ranks_[expected]) + " has not called"};
  }

  int local_rank_;
  const std::vector<Rank>& ranks_;
  std::vector<Peer> peers_;
  std::optional<PeerListener> listener_;
};

}  // namespace

std::unique_ptr<SharedMemory> make_process_shared_memory(cluster::Bootstrap& bootstrap,
                                                         std::chrono::milliseconds timeout) {
  Meeting meeting(bootstrap);
  const auto cards = bootstrap.allgather(meeting.card());
  return std::make_unique<ProcessSharedMemory>(bootstrap.placement().local_rank,
                                               meeting.meet(cards, base::Deadline(timeout)));
}

}  // namespace kolo::transport

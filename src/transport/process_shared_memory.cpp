// Shared memory of processes: every rank makes a memfd for its own slot (so that the pages lie near it) and sends it to
// all ranks of the host over sockets that are connected once.
//
//   rank 0: memfd A -----A---->  rank 1        both map:  slots()[0] = A, slots()[1] = B
//           <------------B----- memfd B
//
// The ranks agree three times in each allocation: there is room for all (nobody reserves before everybody has looked),
// all have reserved theirs, all have mapped everything. A failure of one rank is thus the same error on all of them, at
// once.
//
// The memory itself goes round: in round k from rank r to rank r + k, who says that he has it before the next one is
// sent. So no more descriptors are on their way than there are ranks: a user may have only as many as a process may
// have open (ulimit -n).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sstream>

#include "base/strings.h"
#include "base/system_error.h"
#include "kolo/error.h"
#include "transport/available_memory.h"
#include "transport/make.h"
#include "transport/peer_socket.h"
#include "transport/slot_place.h"

namespace kolo::transport {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(2);

std::size_t mapped_length(std::size_t bytes) { return std::max(kPage, (bytes + kPage - 1) / kPage * kPage); }

BackendError short_of(std::size_t bytes, Rank rank, int code) {
  return BackendError("shared memory: cannot allocate " + std::to_string(bytes) + " bytes on rank " +
                      std::to_string(rank) + ": " + base::errno_text(code));
}

class Mapping {
 public:
  // Local rank `index`'s memory. `first`: where rank 0's is, or null. `error`: why there is no data().
  Mapping(int memfd, std::size_t bytes, std::byte* first, std::size_t index, int& error)
      : length_(mapped_length(bytes)) {
    errno = EEXIST;
    for (int place = 0; place < kSlotPlaces && memory_ == nullptr && errno == EEXIST; ++place) {
      if (void* const wish = slot_place(first, index, length_, place)) map(memfd, wish);
    }
    if (memory_ == nullptr) map(memfd, nullptr);
    if (memory_ == nullptr) error = errno;
  }
  Mapping(Mapping&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, length_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return memory_; }

 private:
  // The whole of it and every page at once: no page fault is left for later. At `place` or, if that is null, anywhere.
  void map(int memfd, void* place) {
    const int flags = MAP_SHARED | MAP_POPULATE | (place != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void* const memory = mmap(place, length_, PROT_READ | PROT_WRITE, flags, memfd, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);  // before Linux 4.17 at another place, maybe
  }

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
  base::UniqueFd socket;             // none for this rank itself
  std::optional<PeerMessage> early;  // the first of a call that has not begun here
};

class ProcessSharedMemory final : public SharedMemory {
 public:
  ProcessSharedMemory(int local_rank, std::vector<Peer> peers, std::function<std::size_t()> available)
      : local_rank_(local_rank), peers_(std::move(peers)), available_(std::move(available)) {}
  [[nodiscard]] int local_rank() const noexcept override { return local_rank_; }
  [[nodiscard]] int local_size() const noexcept override { return static_cast<int>(peers_.size()); }

  [[nodiscard]] std::unique_ptr<SharedRegion> allocate(std::size_t bytes, std::chrono::milliseconds timeout) override {
    ++sequence_;
    const Call call{bytes, base::Deadline(timeout)};
    agree(call, Part::room, has_room(bytes) ? 0 : ENOMEM);
    int error = 0;
    const base::UniqueFd mine = reserve(bytes, error);
    agree(call, Part::reserved, error);
    const auto memories = pass_round(call, mine.get());
    std::vector<Mapping> mappings;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      const base::UniqueFd& memory = peers_[r].socket ? memories[r] : mine;
      if (!memory) {
        error = EMFILE;  // it was sent, and there was no free descriptor for it
      } else {
        std::byte* const first = mappings.empty() ? nullptr : mappings.front().data();
        mappings.emplace_back(memory.get(), bytes, first, r, error);
      }
    }
    agree(call, Part::mapped, error);
    return std::make_unique<ProcessRegion>(std::move(mappings), bytes);
  }

 private:
  struct Call {
    std::size_t bytes;
    base::Deadline deadline;
  };

  // Throws what the first rank that failed has said, which may be this one with `own_error`.
  void agree(const Call& call, Part part, int own_error) {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (peers_[r].socket) tell(r, {sequence_, call.bytes, part, own_error, local_rank_});
    }
    std::vector<int> errors(peers_.size(), own_error);
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (peers_[r].socket) errors[r] = take(r, call, part).message.error;
    }
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (errors[r] != 0) throw short_of(call.bytes, peers_[r].process.rank(), errors[r]);
    }
  }

  // Gives `mine` to all others; theirs, by local rank.
  [[nodiscard]] std::vector<base::UniqueFd> pass_round(const Call& call, int mine) {
    const std::size_t size = peers_.size();
    std::vector<base::UniqueFd> memories(size);
    for (std::size_t k = 1; k < size; ++k) {
      const std::size_t to = (static_cast<std::size_t>(local_rank_) + k) % size;
      const std::size_t from = (static_cast<std::size_t>(local_rank_) + size - k) % size;
      tell(to, {sequence_, call.bytes, Part::memory, 0, local_rank_}, mine);
      memories[from] = take(from, call, Part::memory).descriptor;
      tell(from, {sequence_, call.bytes, Part::received, 0, local_rank_});
      static_cast<void>(take(to, call, Part::received));
    }
    return memories;
  }

  void tell(std::size_t local, const PeerMessage& message, int descriptor = -1) const {
    send_to_peer(peers_[local].socket.get(), message, descriptor, peers_[local].process);
  }

  [[nodiscard]] Rank own_rank() const noexcept { return peers_[static_cast<std::size_t>(local_rank_)].process.rank(); }

  // A memfd has no limit, so reserving too much would wake the kernel's out-of-memory killer. All ranks of the host
  // reserve at the same time.
  [[nodiscard]] bool has_room(std::size_t bytes) const { return bytes <= available_() / peers_.size(); }

  // Of ulimit -f, which counts for shared memory too: who goes beyond it gets a signal, and not an error.
  static bool beyond_file_limit(off_t length) {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           static_cast<rlim_t>(length) > limit.rlim_cur;
  }

  // Reserved, not only promised: what is missing shows here and not as SIGBUS later.
  static base::UniqueFd reserve(std::size_t bytes, int& error) {
    base::UniqueFd memory(memfd_create("kolo", MFD_CLOEXEC));
    const auto length = static_cast<off_t>(mapped_length(bytes));
    if (memory && beyond_file_limit(length)) {
      error = EFBIG;
      return {};
    }
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

  // The next message of a peer, which is `part` of this call.
  [[nodiscard]] ReceivedMessage take(std::size_t local, const Call& call, Part part) {
    Peer& peer = peers_[local];
    while (true) {
      ReceivedMessage got;
      if (peer.early) {
        got.message = *std::exchange(peer.early, std::nullopt);
      } else {
        if (!await(peer, call.deadline)) throw not_there(local, part);
        got = receive_from_peer(peer.socket.get(), peer.process);
      }
      const PeerMessage& message = got.message;
      if (message.sequence < sequence_) continue;  // of a call that timed out here
      if (message.sequence > sequence_) {          // this call has timed out over there
        peer.early = message;
        throw TimeoutError({peer.process.rank()}, "a collective, allocating shared memory: rank " +
                                                      std::to_string(peer.process.rank()) + " has timed out");
      }
      if (message.bytes != call.bytes) {
        throw UsageError("shared memory: rank " + std::to_string(own_rank()) + " asked for " +
                         std::to_string(call.bytes) + " bytes, rank " + std::to_string(peer.process.rank()) + " for " +
                         std::to_string(message.bytes));
      }
      if (message.part != part) {
        throw BackendError("shared memory: rank " + std::to_string(peer.process.rank()) +
                           " sent a message of another phase. Do all ranks make the same calls?");
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

  // Everybody from `first` on who has said nothing yet; where memory goes round only `first` is waited for.
  [[nodiscard]] TimeoutError not_there(std::size_t first, Part part) const {
    const bool round = part == Part::memory || part == Part::received;
    const std::size_t end = round ? first + 1 : peers_.size();
    std::vector<Rank> missing;
    for (std::size_t r = first; r < end; ++r) {
      if (!peers_[r].socket) continue;
      if (r != first && wait_for_peer(peers_[r].socket.get(), {}, base::Deadline(std::chrono::nanoseconds{0})))
        continue;
      missing.push_back(peers_[r].process.rank());
    }
    return {missing, "a collective, allocating shared memory: timeout: waiting for " + base::ranks_text(missing)};
  }

  int local_rank_;
  std::vector<Peer> peers_;  // by local rank
  std::function<std::size_t()> available_;
  std::uint64_t sequence_ = 0;
};

// Connects all pairs: the higher rank calls, the lower one answers.
class Meeting {
 public:
  explicit Meeting(const cluster::Bootstrap& bootstrap)
      : local_rank_(bootstrap.placement().local_rank), ranks_(bootstrap.local_ranks()), peers_(ranks_.size()) {
    if (ranks_.size() > 1) listener_.emplace(static_cast<int>(ranks_.size()));
  }

  // Process id and name of the listener.
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
      send_to_peer(peers_[r].socket.get(), {.rank = local_rank_}, -1, peers_[r].process);
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
            "connecting the ranks of this host: timeout: waiting for rank " + std::to_string(ranks_[expected])};
  }

  int local_rank_;
  const std::vector<Rank>& ranks_;
  std::vector<Peer> peers_;
  std::optional<PeerListener> listener_;
};

}  // namespace

std::unique_ptr<SharedMemory> make_process_shared_memory(cluster::Bootstrap& bootstrap,
                                                         std::chrono::milliseconds timeout,
                                                         std::function<std::size_t()> available) {
  if (!available) available = [] { return available_memory(); };
  Meeting meeting(bootstrap);
  const auto cards = bootstrap.allgather(meeting.card());
  auto peers = meeting.meet(cards, base::Deadline(timeout));
  return std::make_unique<ProcessSharedMemory>(bootstrap.placement().local_rank, std::move(peers),
                                               std::move(available));
}

}  // namespace kolo::transport

// Allreduce of two ranks' private data: each reduces its half, and then fetches the other's; both by a copy that the
// kernel makes, straight out of the other process's memory.
//
//   rank 0  [a0 b0]   a = a0+a1 in its place, a1 by way of scratch   [a b0]   fetches b   [a b]
//   rank 1  [a1 b1]   b = b0+b1                                      [a1 b]   fetches a   [a b]
//
// A half is cut into chunks that stay in a core's cache, and each rank counts those that it has reduced, for the other
// to see. A chunk that the peer has reduced may be fetched, and over that same place of one's own data, which the peer
// has read for it. Nobody returns before both have fetched everything, or has said that it gives up: then memory may
// be another's while it is read. N bytes cross between the cores per rank; through lanes it is 2 N, half of them
// written.
#include "collectives/pulled_allreduce.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kolo/error.h"

namespace kolo::collectives {
namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;

class PulledAllreduce final : public QueuedMachine {
 public:
  PulledAllreduce(std::shared_ptr<Group> group, const std::shared_ptr<Pulls>& pulls, const AllreduceOptions& options)
      : QueuedMachine(std::move(group), pulls, pulls->queue),
        pulls_(*pulls),
        mine_(pulls->board(pulls->rank())),
        peers_(pulls->board(pulls->peer())),
        options_(options),
        element_(size_of(options.dtype)) {}
  ~PulledAllreduce() override {
    if (!complete()) give_up();
  }

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    if (number_ == 0 || peer_has_ended()) return {};
    return {pulls_.peer()};
  }

 private:
  [[nodiscard]] Range half(int rank) const { return part_of(options_.count, 2, rank, line_grain(options_.dtype)); }
  [[nodiscard]] std::size_t elements_of_chunk() const noexcept { return kChunkBytes / element_; }
  [[nodiscard]] std::size_t chunks(int rank) const {
    return (half(rank).size() + elements_of_chunk() - 1) / elements_of_chunk();
  }
  [[nodiscard]] Range chunk(int rank, std::size_t index) const {
    const Range whole = half(rank);
    const std::size_t begin = whole.begin + index * elements_of_chunk();
    return {begin, std::min(whole.end, begin + elements_of_chunk())};
  }

  bool turn() override {
    try {
      return get_on();
    } catch (...) {
      give_up();
      throw;
    }
  }

  bool get_on() {
    if (number_ == 0) begin();
    if (!peer_has_begun() || !reduce_own() || !fetch_peers()) return false;
    mine_.ended.store(number_, std::memory_order_release);
    if (!peer_has_ended()) {
      require_peer();
      return false;
    }
    pulls_.peers_chunks += chunks(pulls_.peer());
    return true;
  }

  void begin() {
    number_ = ++pulls_.operations;
    mine_.data = options_.data;
    mine_.bytes = options_.count * element_;
    mine_.begun.store(number_, std::memory_order_release);
  }

  // Before its memory is anything else, and once and for all: no later operation gets in.
  void give_up() noexcept {
    const std::uint64_t number = number_ != 0 ? number_ : pulls_.operations + 1;
    const std::uint64_t before = mine_.broken.load(std::memory_order_relaxed);
    if (before == 0 || number < before) mine_.broken.exchange(number, std::memory_order_seq_cst);
  }

  void require_peer() const {
    const std::uint64_t broken = peers_.broken.load(std::memory_order_seq_cst);
    if (broken == 0 || broken > number_) return;
    throw BackendError("allreduce: local rank " + std::to_string(pulls_.peer()) +
                       " has given it up, or one before it: it failed there, or its deadline passed");
  }

  bool peer_has_begun() {
    if (peers_.begun.load(std::memory_order_acquire) < number_) {
      require_peer();
      return false;
    }
    if (reduced_ == 0 && fetched_ == 0 && peers_.bytes != mine_.bytes) {
      throw UsageError("allreduce: " + std::to_string(mine_.bytes) + " bytes on local rank " +
                       std::to_string(pulls_.rank()) + ", " + std::to_string(peers_.bytes) + " on the other");
    }
    return true;
  }

  [[nodiscard]] bool peer_has_ended() const { return peers_.ended.load(std::memory_order_acquire) >= number_; }

  // What was read counts if it was still the operation's afterwards.
  bool pull(const Range& elements, std::byte* to) {
    const bool there = read(elements, to);
    require_peer();
    return there;
  }

  bool read(const Range& elements, std::byte* to) {
    try {
      return pulls_.memory->pull(pulls_.peer(), peers_.data + elements.begin * element_,
                                 {to, elements.size() * element_});
    } catch (const BackendError&) {
      require_peer();  // it may be gone with its operation
      throw;
    }
  }

  bool reduce_own() {
    for (; reduced_ < chunks(pulls_.rank()); ++reduced_) {
      const Range elements = chunk(pulls_.rank(), reduced_);
      std::byte* const output = options_.data + elements.begin * element_;
      std::byte* const theirs = pulls_.scratch.data()->bytes;
      if (!pull(elements, theirs)) return false;
      std::array<const std::byte*, 2> inputs{output, theirs};
      if (pulls_.rank() == 1) std::swap(inputs[0], inputs[1]);  // rank order
      reduction_of(options_).run(inputs, {&output, 1}, elements.size());
      mine_.reduced.fetch_add(1, std::memory_order_release);
      group().moved = true;
    }
    return true;
  }

  bool fetch_peers() {
    const std::size_t there = peers_.reduced.load(std::memory_order_acquire) - pulls_.peers_chunks;
    for (; fetched_ < there; ++fetched_) {
      const Range elements = chunk(pulls_.peer(), fetched_);
      if (!pull(elements, options_.data + elements.begin * element_)) return false;
      group().moved = true;
    }
    return fetched_ == chunks(pulls_.peer());
  }

  Pulls& pulls_;  // kept alive by QueuedMachine
  Pulls::Board& mine_;
  const Pulls::Board& peers_;
  AllreduceOptions options_;
  std::size_t element_;
  std::uint64_t number_ = 0;  // of this operation, given at its first turn
  std::size_t reduced_ = 0;   // chunks of this rank's half
  std::size_t fetched_ = 0;   // chunks of the peer's
};

}  // namespace

std::shared_ptr<Pulls> make_pulls(transport::SharedMemory& memory, std::shared_ptr<Lanes> lanes) {
  auto pulls = std::make_shared<Pulls>();
  pulls->memory = &memory;
  pulls->lanes = std::move(lanes);
  pulls->scratch.resize(kChunkBytes / kCacheLine);
  return pulls;
}

std::unique_ptr<Operation> start_pulled_allreduce(std::shared_ptr<Group> group, const std::shared_ptr<Pulls>& pulls,
                                                  const AllreduceOptions& options) {
  return std::make_unique<PulledAllreduce>(std::move(group), pulls, options);
}

}  // namespace kolo::collectives

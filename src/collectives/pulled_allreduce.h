#pragma once
// Allreduce of two ranks that read each other's own memory. See pulled_allreduce.cpp.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/lanes.h"
#include "collectives/machine.h"
#include "collectives/reduction.h"
#include "transport/shared_memory.h"

namespace kolo::collectives {

// What the operations of one communicator share.
struct Pulls {
  // Each rank has one, beside its lanes. All numbers only grow.
  struct Board {
    alignas(kCacheLine) std::atomic<std::uint64_t> begun;  // operations; of the last one:
    const std::byte* data;
    std::uint64_t bytes;
    alignas(kCacheLine) std::atomic<std::uint64_t> reduced;  // chunks, of all operations
    alignas(kCacheLine) std::atomic<std::uint64_t> ended;    // operations: nothing more is read for it
    alignas(kCacheLine) std::atomic<std::uint64_t> broken;   // the first operation that was given up; 0: none
  };
  static_assert(sizeof(Board) <= Lanes::kBoardBytes);
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };

  transport::SharedMemory* memory = nullptr;  // borrowed
  std::shared_ptr<Lanes> lanes;
  TurnQueue queue;
  std::uint64_t operations = 0;    // begun
  std::uint64_t peers_chunks = 0;  // that the peer has reduced in those that are over
  std::vector<Line> scratch;       // what the peer has of a chunk

  [[nodiscard]] int rank() const noexcept { return memory->local_rank(); }
  [[nodiscard]] int peer() const noexcept { return 1 - rank(); }
  [[nodiscard]] Board& board(int rank) const { return *reinterpret_cast<Board*>(lanes->board(rank)); }
};

// Waits for nobody. REQUIRES: memory.can_pull(); `lanes` are those of its two ranks.
[[nodiscard]] std::shared_ptr<Pulls> make_pulls(transport::SharedMemory& memory, std::shared_ptr<Lanes> lanes);

// Without flags. An operation that is given up leaves memory that the peer may still read: it looks whether it has been
// given up behind each read, and then that is its error.
[[nodiscard]] std::unique_ptr<Operation> start_pulled_allreduce(std::shared_ptr<Group> group,
                                                                const std::shared_ptr<Pulls>& pulls,
                                                                const AllreduceOptions& options);

}  // namespace kolo::collectives

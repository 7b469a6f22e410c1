#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/machine.h"
#include "collectives/reduction.h"
#include "kernels/processor.h"
#include "transport/shared_memory.h"

namespace kolo::collectives {

// One rank's words about one registered buffer, in shared memory, zero at first. The counters only grow: operation s of
// the buffer has arrived at a rank once `arrived` >= s. A few flag words share the line of the counter that publishes
// them.
struct DirectControl {
  alignas(kCacheLine) std::atomic<std::uint64_t> arrived;
  std::uint64_t flags[kMaxFlagWords];
  alignas(kCacheLine) std::atomic<std::uint64_t> done;
  // With other hosts in the operation: the OR over all of them, published by `done`; local rank 0's counts.
  std::uint64_t verdict[kMaxFlagWords];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A registered buffer as all ranks of the host see it.
struct DirectBuffer {
  std::shared_ptr<transport::SharedRegion> region;  // shared with the other buffers of the same allocation
  std::vector<std::byte*> memory;                   // per rank
  std::vector<DirectControl*> control;              // per rank
  std::size_t bytes = 0;
  std::uint64_t started = 0;  // operations begun by this rank
  TurnQueue queue;
  std::vector<std::byte*> columns;  // room for columns_at(), so that small operations allocate nothing

  // What lies at all ranks where `local` of this one's does, `ahead` bytes further on. Valid until the next call.
  [[nodiscard]] std::span<std::byte* const> columns_at(std::size_t rank, const std::byte* local, std::size_t ahead) {
    const auto offset = static_cast<std::size_t>(local - memory[rank]) + ahead;
    for (std::size_t r = 0; r < memory.size(); ++r) columns[r] = memory[r] + offset;
    return columns;
  }
};

struct DirectTuning {
  std::size_t quantum = 512 * 1024;  // bytes reduced in one advance(), so that a caller in passing is not held up
  // Of all ranks' data together: up to here the peers' lines are fetched ahead; beyond, it disturbs what the hardware
  // does, and on some processors always.
  std::size_t fetching_up_to = kernels::on_intel() || kernels::on_zen4() ? 0 : std::size_t{4} << 20;
  std::size_t streaming_above = last_level_cache_bytes();  // of all ranks' data together

  // For `bytes` of each of `ranks` ranks, of which `rank` does the work.
  [[nodiscard]] Reduction::Stores stores(std::size_t bytes, std::size_t ranks, Rank rank) const noexcept {
    return {ranks * bytes > streaming_above, ranks * bytes > fetching_up_to ? -1 : rank};
  }
};

// See direct_allreduce.cpp. `options.data` lies in this rank's memory of `buffer`, at the same offset on all ranks.
[[nodiscard]] std::unique_ptr<Operation> start_direct_allreduce(std::shared_ptr<Group> group,
                                                                const std::shared_ptr<DirectBuffer>& buffer,
                                                                const AllreduceOptions& options,
                                                                const DirectTuning& tuning = {});

// The two buffers of a scattered allreduce as all ranks of the host see them: the one that the operation synchronises
// in, and the one where pieces may lie.
struct ScatteredBuffers {
  std::shared_ptr<DirectBuffer> buffer;
  std::shared_ptr<DirectBuffer> home;
};

// See scattered_allreduce.cpp. Throws UsageError for pieces that `options`, `buffers` and each other do not fit.
[[nodiscard]] std::unique_ptr<Operation> start_scattered_allreduce(std::shared_ptr<Group> group,
                                                                   const ScatteredBuffers& buffers,
                                                                   const AllreduceOptions& options,
                                                                   const SegmentedBuffer& scattering,
                                                                   const DirectTuning& tuning = {});

}  // namespace kolo::collectives

#pragma once
// The meeting place of one host's ranks for data that lies in private memory. See lanes.cpp.
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/fill_way.h"
#include "collectives/machine.h"
#include "collectives/reduction.h"
#include "transport/shared_memory.h"

namespace kolo::collectives {

inline constexpr std::size_t kLaneCount = 4;
inline constexpr std::size_t kLaneBytes = 128 * 1024;  // of payload; all lanes of a rank fit its second-level cache

struct Lanes {
  std::unique_ptr<transport::SharedRegion> region;
  int rank = 0;
  int size = 0;
  std::uint64_t next_step = 1;  // number of the next step to be taken by any operation
  TurnQueue queue;
  FillWay fill_way;
  // For whose turn it is, so that small operations allocate nothing: one pointer per rank.
  std::vector<const std::byte*> payloads;
  std::vector<const std::byte*> inputs;

  [[nodiscard]] std::byte* slot(int r) const { return region->slots()[static_cast<std::size_t>(r)].data(); }
  // Lane of `step` in rank r's slot: a counter, then the payload.
  [[nodiscard]] std::byte* lane(int r, std::uint64_t step) const { return slot(r) + (step % kLaneCount) * kStride; }
  [[nodiscard]] std::atomic<std::uint64_t>& counter(int r, std::uint64_t step) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(lane(r, step));
  }
  // A payload that fits the counter's cache line travels in it.
  [[nodiscard]] static constexpr bool in_counters_line(std::size_t bytes) noexcept {
    return bytes <= kCacheLine - sizeof(std::uint64_t);
  }
  [[nodiscard]] std::byte* payload(int r, std::uint64_t step, std::size_t bytes) const {
    return lane(r, step) + (in_counters_line(bytes) ? sizeof(std::uint64_t) : kCacheLine);
  }
  static constexpr std::size_t kStride = kCacheLine + kLaneBytes;
  static constexpr std::size_t kSlotBytes = kLaneCount * kStride;
};

// Collective over the ranks of `memory`; waits for them.
[[nodiscard]] std::shared_ptr<Lanes> make_lanes(transport::SharedMemory& memory, std::chrono::milliseconds timeout);

// An operation in `steps` steps: in each, every rank fills its lane and, once all have, drains all lanes. fill(j + 1)
// comes before drain(j), so that ranks need not wait for each other; drain(j) comes before fill(j + 2).
class LaneOperation : public QueuedMachine {
 public:
  LaneOperation(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes, std::size_t steps);
  [[nodiscard]] std::vector<Rank> waiting_for() const override;

 protected:
  // At most kLaneBytes; the same answer on all ranks.
  [[nodiscard]] virtual std::size_t payload_bytes(int rank, std::size_t step) const = 0;
  virtual void fill(std::size_t step, std::byte* payload) = 0;
  virtual void drain(std::size_t step, std::span<const std::byte* const> payloads) = 0;

  // For drain(): nothing more shall be filled or drained. All ranks decide so in the same step.
  void stop() noexcept;
  [[nodiscard]] int rank() const noexcept { return lanes_.rank; }
  [[nodiscard]] int size() const noexcept { return lanes_.size; }
  // For fill(): copies `bytes` into the payload, where this rank does not read them again.
  void show(std::byte* payload, const std::byte* from, std::size_t bytes);
  // `payloads`, each `bytes` further on, and in the place of this rank's own the memory it was filled from, which is
  // nearer. Valid until the next call.
  [[nodiscard]] std::span<const std::byte* const> with_own(std::span<const std::byte* const> payloads,
                                                           std::size_t bytes, const std::byte* own);

 private:
  bool turn() override;
  void publish();
  bool everybody();
  void fetch_with_counter(int of, std::uint64_t step);
  void own_next_lane();

  Lanes& lanes_;  // kept alive by QueuedMachine
  std::size_t steps_;
  std::uint64_t first_ = 0;  // number of step 0; given at the first turn
  std::size_t filled_ = 0;
  std::size_t drained_ = 0;
  int here_ = 0;  // ranks below this one have been seen in step drained_
  bool stopped_ = false;
};

}  // namespace kolo::collectives

// Lanes: small pieces of shared memory through which the ranks of one host show each other their data.
//
// Each rank owns kLaneCount lanes; step j uses lane j mod kLaneCount of every rank. A lane is a counter and a payload:
//
//            lane 0       lane 1       lane 2       lane 3
//   rank 0  [8|data]     [9|data]     [6|....]     [7|data]        rank 0 has filled step 9 and drains step 8
//   rank 1  [8|data]     [5|....]     [6|....]     [7|data]        rank 1 has filled step 8 and drains step 7
//   rank 2  [8|data]     [9|data]     [6|....]     [7|data]
//   rank 3  [8|data]     [9|data]     [6|....]     [7|data]
//
// Fill: write the payload, then the counter = j (release). Drain: all counters of step j (acquire), then the payloads.
// No further counter says that a lane may be reused: a rank fills j only after it has drained j-2, so a rank that sees
// everybody's step j-2 knows that everybody has drained j-4, whose lane step j takes. That is why there are four lanes,
// and why one synchronisation a step is enough.
#include "collectives/lanes.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/cache_line.h"
#include "collectives/lane_operations.h"
#include "kernels/scale_copy.h"
#include "kolo/error.h"

namespace kolo::collectives {
namespace {

constexpr std::size_t kShortLines = 4;  // a payload of so many is fetched before it is asked for

}  // namespace

std::shared_ptr<Lanes> make_lanes(transport::SharedMemory& memory, std::chrono::milliseconds timeout) {
  auto lanes = std::make_shared<Lanes>();
  lanes->rank = memory.local_rank();
  lanes->size = memory.local_size();
  lanes->payloads.resize(static_cast<std::size_t>(lanes->size));
  lanes->inputs.resize(static_cast<std::size_t>(lanes->size));
  lanes->region = memory.allocate(Lanes::kSlotBytes, timeout);
  return lanes;
}

LaneOperation::LaneOperation(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes, std::size_t steps)
    : QueuedMachine(std::move(group), lanes, lanes->queue), lanes_(*lanes), steps_(steps) {}

std::span<const std::byte* const> LaneOperation::with_own(std::span<const std::byte* const> payloads, std::size_t bytes,
                                                          const std::byte* own) {
  for (std::size_t r = 0; r < payloads.size(); ++r) lanes_.inputs[r] = payloads[r] + bytes;
  lanes_.inputs[static_cast<std::size_t>(rank())] = own;
  return lanes_.inputs;
}

std::vector<Rank> LaneOperation::waiting_for() const {
  std::vector<Rank> missing;
  if (first_ == 0 || drained_ == steps_) return missing;
  const std::uint64_t step = first_ + drained_;
  for (int r = 0; r < lanes_.size; ++r) {
    if (lanes_.counter(r, step).load(std::memory_order_acquire) != step) missing.push_back(r);
  }
  return missing;
}

void LaneOperation::stop() noexcept {
  stopped_ = true;
  steps_ = filled_;
}

void LaneOperation::show(std::byte* payload, const std::byte* from, std::size_t bytes) {
  if (bytes < FillWay::kLooked) {
    if (bytes != 0) std::memcpy(payload, from, bytes);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  if (lanes_.fill_way.past_caches()) {
    kernels::scale_copy(from, DType::u8, payload, DType::u8, bytes, 1.0, true);
  } else {
    std::memcpy(payload, from, bytes);
  }
  lanes_.fill_way.took(bytes, std::chrono::steady_clock::now() - start);
}

void LaneOperation::publish() {
  const std::uint64_t step = first_ + filled_;
  if (!stopped_) fill(filled_, lanes_.payload(rank(), step, payload_bytes(rank(), filled_)));
  lanes_.counter(rank(), step).store(step, std::memory_order_release);
  ++filled_;
}

// A payload of a few lines comes with its counter, and not one trip between caches later.
void LaneOperation::fetch_with_counter(int of, std::uint64_t step) {
  if (of == rank() || stopped_) return;
  const std::size_t bytes = payload_bytes(of, drained_);
  if (Lanes::in_counters_line(bytes) || bytes > kShortLines * kCacheLine) return;
  const std::byte* const payload = lanes_.payload(of, step, bytes);
  for (std::size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(payload + at);
}

bool LaneOperation::everybody() {
  const std::uint64_t step = first_ + drained_;
  while (here_ < size()) {
    const std::uint64_t counter = lanes_.counter(here_, step).load(std::memory_order_acquire);
    fetch_with_counter(here_, step);
    if (counter != step) return false;
    ++here_;
  }
  return true;
}

// Fetches the first lines of the next step's lane for writing, while the caller is busy elsewhere.
void LaneOperation::own_next_lane() {
  const std::byte* lane = lanes_.lane(rank(), lanes_.next_step);
  for (std::size_t line = 0; line <= kShortLines; ++line) base::own_line(lane + line * kCacheLine);
}

bool LaneOperation::turn() {
  if (first_ == 0) first_ = lanes_.next_step;
  while (drained_ < steps_) {
    while (filled_ < steps_ && filled_ <= drained_ + 1) publish();
    if (!everybody()) return false;
    if (!stopped_) {
      const std::uint64_t step = first_ + drained_;
      for (int r = 0; r < size(); ++r) {
        lanes_.payloads[static_cast<std::size_t>(r)] = lanes_.payload(r, step, payload_bytes(r, drained_));
      }
      drain(drained_, lanes_.payloads);
    }
    ++drained_;
    here_ = 0;
    group().moved = true;
  }
  lanes_.next_step += steps_;
  own_next_lane();
  return true;
}

namespace {

// One step without payload: a rank that has seen all counters of the step knows that all ranks have come.
class LaneBarrier final : public LaneOperation {
 public:
  LaneBarrier(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes)
      : LaneOperation(std::move(group), lanes, 1) {}

 private:
  [[nodiscard]] std::size_t payload_bytes(int /*rank*/, std::size_t /*step*/) const override { return 0; }
  void fill(std::size_t /*step*/, std::byte* /*payload*/) override {}
  void drain(std::size_t /*step*/, std::span<const std::byte* const> /*payloads*/) override {}
};

}  // namespace

std::unique_ptr<Operation> start_lane_barrier(std::shared_ptr<Group> group, const std::shared_ptr<Lanes>& lanes) {
  return std::make_unique<LaneBarrier>(std::move(group), lanes);
}

}  // namespace kolo::collectives

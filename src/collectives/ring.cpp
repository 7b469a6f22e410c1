// The segmented ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 2009).
//
// Data is cut into one block per rank; a step moves one block from every rank to its right neighbour. p-1 steps of
// reduce-scatter leave every rank with its own block reduced, p-1 steps of allgather hand the blocks round. Each rank
// sends 2(p-1)/p N bytes, the least there is, and talks to two neighbours only.
//
//   step 0  0 --block 3--> 1 --block 0--> 2 --block 1--> 3 --block 2--> 0       rank r sends block r-1-t in step t,
//   step 1  0 --block 2--> 1 --block 3--> 2 --block 0--> 3 --block 1--> 0       and receives block r-2-t (mod 4)
//   step 2  0 --block 1--> 1 --block 2--> 2 --block 3--> 3 --block 0--> 0       now block r is complete at rank r
//   step 3  0 --block 0--> 1 --block 1--> 2 --block 2--> 3 --block 3--> 0       allgather begins
//   step 4, 5 ...
//
// Cost: 2 (p-1) (alpha + S beta) + 2 (p-1)/p N beta + (p-1)/p N gamma, with segments of S bytes.
//
// Blocks move in segments: a segment of step t+1 leaves as soon as the same segment of step t has come in, several are
// in flight, and a rank sends to the right while it receives from the left. So both directions of its link are busy all
// the time, with two ranks (whose neighbours are one and the same) as with many. Segments of one step follow each other
// on one tag; empty ones are not sent.
//
// A second ring the other way round, with half the data each, would gain nothing where every rank has one full-duplex
// link to a switch: it sends 2(p-1)/p N over that link however that is shared between neighbours, and the steps
// stay 2(p-1). It doubles the rate only where each pair of neighbours has a cable of its own.
//
// A block's partial sums pass through ranks in ring order, in the element type: 16-bit types are rounded at each hop
// (p-1 roundings, where the direct algorithm rounds once). The owner computes the final value and everybody copies it:
// equal bits everywhere. A rank's contribution is prescaled in place when it is first used; the owner divides and
// postscales.
#include "collectives/ring.h"

#include <algorithm>

#include "collectives/expected_message.h"

namespace kolo::collectives {

Ring::Ring(transport::Transport& transport, transport::Tag tag, Plan plan)
    : transport_(transport),
      tag_(tag),
      plan_(std::move(plan)),
      size_(transport.size()),
      element_(size_of(plan_.reduction.dtype)) {
  cut();
  const auto half = static_cast<std::size_t>(size_ - 1);
  first_step_ = plan_.part == Part::allgather ? half : 0;
  items_ = segments_ * half * (plan_.part == Part::allreduce ? 2 : 1);
}

// A segment ends where its piece does: pieces begin at the same elements on all ranks, wherever they lie.
void Ring::cut() {
  const std::size_t most = std::max<std::size_t>(1, plan_.segment_bytes / element_);
  std::size_t at = 0;
  for (const std::size_t block : plan_.blocks) {
    first_.push_back(cut_.size());
    for (const std::size_t end = at + block; at < end; at += cut_.back().count) {
      cut_.push_back(run_from(at, std::min(end, at + most), plan_.scattering, plan_.data, element_));
    }
    segments_ = std::max(segments_, cut_.size() - first_.back());
  }
  first_.push_back(cut_.size());
}

std::size_t Ring::block_sent(std::size_t step) const {
  const auto size = static_cast<std::size_t>(size_);
  return (static_cast<std::size_t>(transport_.rank()) + 2 * size - 1 - step) % size;
}

std::size_t Ring::block_received(std::size_t step) const {
  const auto size = static_cast<std::size_t>(size_);
  return (static_cast<std::size_t>(transport_.rank()) + 2 * size - 2 - step) % size;
}

Run Ring::segment(std::size_t block, std::size_t index) const {
  const std::size_t found = first_[block] + index;
  return found < first_[block + 1] ? cut_[found] : Run{};
}

bool Ring::advance() {
  bool moved = true;
  while (moved && !complete()) {
    moved = post_receives();
    moved |= take_received();
    moved |= post_sends();
    moved |= reap_sends();
  }
  return complete();
}

// The allgather receives into memory that the reduce-scatter has sent from, p-1 steps before: that send must be over.
bool Ring::may_receive(std::size_t index) const {
  if (index >= items_ || index >= received_ + kWindow) return false;
  const std::size_t step = item(index).step;
  if (reduces(step) || first_step_ != 0) return true;
  return sent_ > index - static_cast<std::size_t>(size_ - 1) * segments_;
}

bool Ring::post_receives() {
  bool moved = false;
  for (; may_receive(posted_); ++posted_, moved = true) {
    const auto [step, index] = item(posted_);
    const Run own = segment(block_received(step), index);
    if (own.count == 0) continue;
    const std::size_t slot = posted_ % kWindow;
    std::span<std::byte> into(own.data, own.count * element_);
    if (reduces(step)) {
      incoming_[slot].resize(into.size());
      into = incoming_[slot];
    }
    receives_[slot] = transport_.receive((transport_.rank() + size_ - 1) % size_, tag_, into);
  }
  return moved;
}

bool Ring::take_received() {
  bool moved = false;
  for (; received_ < posted_; ++received_, moved = true) {
    const std::size_t slot = received_ % kWindow;
    if (receives_[slot] == nullptr) continue;
    const auto [step, index] = item(received_);
    const Run own = segment(block_received(step), index);
    if (!has_come(*receives_[slot], own.count * element_, (transport_.rank() + size_ - 1) % size_)) return moved;
    receives_[slot].reset();
    if (reduces(step)) combine(slot, own, step + 2 == static_cast<std::size_t>(size_));
  }
  return moved;
}

void Ring::combine(std::size_t slot, const Run& own, bool last) {
  prescale_in_place(plan_.reduction, own.data, own.count);
  std::byte* const result = own.data;
  const std::byte* const partials[] = {incoming_[slot].data(), result};
  collectives::combine(plan_.reduction, partials, {&result, 1}, own.count, {last, size_});
}

bool Ring::post_sends() {
  bool moved = false;
  for (; sending_ < items_ && sending_ < sent_ + kWindow; ++sending_, moved = true) {
    if (sending_ >= segments_ && received_ <= sending_ - segments_) break;  // it has not come in yet
    const auto [step, index] = item(sending_);
    const Run own = segment(block_sent(step), index);
    if (own.count == 0) continue;
    if (sending_ < segments_ && reduces(step)) prescale_in_place(plan_.reduction, own.data, own.count);
    const std::span<const std::byte> data(own.data, own.count * element_);
    sends_[sending_ % kWindow] = transport_.send((transport_.rank() + 1) % size_, tag_, data);
  }
  return moved;
}

bool Ring::reap_sends() {
  bool moved = false;
  for (; sent_ < sending_; ++sent_, moved = true) {
    auto& transfer = sends_[sent_ % kWindow];
    if (transfer == nullptr) continue;
    if (!transfer->test()) return moved;
    transfer.reset();
  }
  return moved;
}

std::vector<Rank> Ring::waiting_for() const {
  std::vector<Rank> neighbours;
  if (received_ < items_) neighbours.push_back((transport_.rank() + size_ - 1) % size_);
  const Rank right = (transport_.rank() + 1) % size_;
  if (sent_ < sending_ && (neighbours.empty() || neighbours.front() != right)) neighbours.push_back(right);
  return neighbours;
}

}  // namespace kolo::collectives

#include "device/staged_crossing.h"

#include <algorithm>

namespace kolo::device {

StagedCrossing::StagedCrossing(Lane& lane, std::span<std::byte> share, DType dtype,
                               std::unique_ptr<Communicator> across, telemetry::Counters& counters)
    : carriers_(lane.shares().ranks),
      dtype_(dtype),
      across_(std::move(across)),
      counters_(counters),
      stage_(lane, share, kPieceBytes) {}

void StagedCrossing::begin() {
  travelling_.clear();
  sent_ = returned_ = 0;
  stage_.fetch();
}

bool StagedCrossing::advance() {
  while (sent_ < stage_.pieces() && travelling_.size() < kMostTravelling && stage_.fetched(sent_)) send(sent_++);
  for (auto next = travelling_.begin(); next != travelling_.end();) {  // as it is when one of them throws
    if (!next->operation->advance()) {
      ++next;
      continue;
    }
    stage_.put(next->piece);
    ++returned_;
    moved_ = true;
    next = travelling_.erase(next);
  }
  return returned_ == stage_.pieces();
}

// All ranks that have the share send its pieces in one order.
void StagedCrossing::send(std::size_t piece) {
  const auto memory = stage_.on_host(piece);
  AllreduceOptions options;
  options.data = memory.data();
  options.count = memory.size() / size_of(dtype_);
  options.dtype = dtype_;
  options.op = ReduceOp::sum;
  counters_.launches.add();
  travelling_.push_back({piece, across_->start(options)});
  counters_.bytes_carried.add(memory.size());
  counters_.pieces_travelling_max.raise_to(travelling_.size());
  moved_ = true;
}

std::vector<Rank> StagedCrossing::waiting_for() const {
  std::vector<Rank> ranks;
  for (const auto& each : travelling_) {
    for (const Rank host : each.operation->waiting_for()) ranks.push_back(carriers_[static_cast<std::size_t>(host)]);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

}  // namespace kolo::device

#include "engine/share_bucket.h"

#include <algorithm>
#include <utility>

#include "telemetry/range.h"

namespace kolo::engine {

ShareBucket::ShareBucket(ShareBucketParts parts)
    : BucketOnDevice(*parts.plan, {parts.lane, parts.timeout}, 1),
      agreement_(std::move(parts.communicator), parts.counters),
      across_(std::move(parts.across)),
      carriers_(parts.lane->shares().ranks),
      counters_(parts.counters),
      stage_(*parts.lane, memory().share(), kPieceBytes) {}

void ShareBucket::open(std::uint64_t stamp) {
  BucketOnDevice::open(stamp);
  agreement_.reset();
  travelling_.clear();
  sent_ = returned_ = 0;
  state_ = State::open;
}

void ShareBucket::launch(const Reduction& reduction, bool as_void) {
  scale_ = reduction.whole_scale(agreement_.size());
  first_turn() = lane().take_turn();
  agreement_.start(flags(as_void));
  state_ = State::launched;
}

bool ShareBucket::advance() {
  const State before = state_;
  if (state_ == State::launched && agreement_.advance()) state_ = State::agreed;
  if (state_ == State::agreed && lane().is_turn(first_turn())) {
    lane().end_turn();
    begin();
  }
  if (state_ == State::carrying && carry()) agree_again();
  if (state_ == State::carried && agreement_.advance()) state_ = State::agreed_again;
  if (state_ == State::agreed_again && lane().is_turn(second_turn_)) {
    lane().end_turn();
    stage_.order_lane();
    memory().spread();
    state_ = State::complete;
  }
  moved_ |= state_ != before;
  return state_ == State::complete;
}

void ShareBucket::begin() {
  if (voided()) {
    state_ = State::complete;
    return;
  }
  const telemetry::Range range("kolo: carry bucket", plan().bytes);
  memory().pack(scale_);
  memory().gather();
  stage_.fetch();
  state_ = State::carrying;
}

// True when all pieces are on their way back to the device.
bool ShareBucket::carry() {
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
void ShareBucket::send(std::size_t piece) {
  const auto memory = stage_.on_host(piece);
  AllreduceOptions options;
  options.data = memory.data();
  options.count = memory.size() / size_of(plan().dtype);
  options.dtype = plan().dtype;
  options.op = ReduceOp::sum;
  counters_->launches.add();
  travelling_.push_back({piece, across_->start(options)});
  counters_->bytes_carried.add(memory.size());
  counters_->pieces_travelling_max.raise_to(travelling_.size());
  moved_ = true;
}

void ShareBucket::agree_again() {
  second_turn_ = lane().take_turn();
  FlagWords flags;
  flags.words = {&second_turn_, 1};
  agreement_.start(flags);
  state_ = State::carried;
}

bool ShareBucket::moved() noexcept {
  if (agreement_.moved()) moved_ = true;
  return std::exchange(moved_, false);
}

std::vector<Rank> ShareBucket::waiting_for() const {
  if (state_ == State::carrying) {
    if (travelling_.empty()) return {agreement_.rank()};
    std::vector<Rank> ranks;
    for (const auto& each : travelling_) {
      for (const Rank host : each.operation->waiting_for()) {
        ranks.push_back(carriers_[static_cast<std::size_t>(host)]);
      }
    }
    std::ranges::sort(ranks);
    ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
    return ranks;
  }
  return agreement_.waiting_for();
}

}  // namespace kolo::engine

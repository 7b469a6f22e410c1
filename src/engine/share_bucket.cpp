#include "engine/share_bucket.h"

#include <utility>

#include "telemetry/range.h"

namespace kolo::engine {

ShareBucket::ShareBucket(ShareBucketParts parts)
    : BucketOnDevice(*parts.plan, {parts.lane, parts.timeout}, 1),
      agreement_(std::move(parts.communicator), *parts.lane, parts.counters),
      crossing_(*parts.lane, memory().share(), parts.plan->dtype, parts.lane->shares().between_hosts(),
                *parts.counters) {}

void ShareBucket::open(const Stamp& stamp) {
  BucketOnDevice::open(stamp);
  agreement_.reset();
  state_ = State::open;
}

void ShareBucket::launch(const Reduction& reduction, bool as_void) {
  scale_ = reduction.whole_scale(agreement_.size());
  agreement_.start(flags(as_void), first_turn(), kVoid);
  state_ = State::launched;
}

bool ShareBucket::advance() {
  const State before = state_;
  if (state_ == State::launched && agreement_.advance()) state_ = State::agreed;
  if (state_ == State::agreed && agreement_.takes_turn()) begin();
  if (state_ == State::crossing && crossing_.advance()) agree_again();
  if (state_ == State::crossed && agreement_.advance()) state_ = State::agreed_again;
  if (state_ == State::agreed_again && agreement_.takes_turn()) {
    crossing_.order_lane();
    memory().spread();
    end_reduction();
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
  begin_reduction();
  memory().gather();
  crossing_.begin();
  state_ = State::crossing;
}

void ShareBucket::agree_again() {
  agreement_.start(second_turn_);
  state_ = State::crossed;
}

bool ShareBucket::moved() noexcept {
  const bool agreed = agreement_.moved(), crossed = crossing_.moved();
  return std::exchange(moved_, false) || agreed || crossed;
}

std::vector<Rank> ShareBucket::waiting_for() const {
  if (state_ != State::crossing) return agreement_.waiting_for();
  auto ranks = crossing_.waiting_for();
  if (ranks.empty()) ranks.push_back(agreement_.rank());
  return ranks;
}

}  // namespace kolo::engine

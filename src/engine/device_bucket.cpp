#include "engine/device_bucket.h"

#include "telemetry/range.h"

namespace kolo::engine {

DeviceBucket::DeviceBucket(DeviceBucketParts parts)
    : BucketOnDevice(*parts.plan, {parts.lane, parts.timeout}, 1),
      communicator_(std::move(parts.communicator)),
      counters_(parts.counters) {}

void DeviceBucket::open(std::uint64_t stamp) {
  BucketOnDevice::open(stamp);
  agreement_.reset();
  state_ = State::open;
}

void DeviceBucket::launch(const Reduction& reduction, bool as_void) {
  const double size = reduction.op == ReduceOp::average ? communicator_->size() : 1;
  scale_ = reduction.prescale * reduction.postscale / size;
  turn() = lane().take_turn();
  AllreduceOptions agreement;
  agreement.flags = flags(as_void);
  counters_->launches.add();
  agreement_ = communicator_->start(agreement);
  state_ = State::launched;
}

bool DeviceBucket::advance() {
  if (state_ == State::launched && agreement_->advance()) {
    agreement_.reset();
    state_ = State::agreed;
  }
  if (state_ == State::agreed && lane().is_turn(turn())) {
    lane().end_turn();
    if (!voided()) {
      const telemetry::Range range("kolo: reduce bucket", plan().bytes);
      memory().pack(scale_);
      memory().sum();
    }
    state_ = State::complete;
  }
  return state_ == State::complete;
}

std::vector<Rank> DeviceBucket::waiting_for() const {
  return agreement_ == nullptr ? std::vector<Rank>{} : agreement_->waiting_for();
}

}  // namespace kolo::engine

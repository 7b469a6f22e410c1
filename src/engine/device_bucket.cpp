#include "engine/device_bucket.h"

#include "telemetry/range.h"

namespace kolo::engine {

DeviceBucket::DeviceBucket(DeviceBucketParts parts)
    : BucketOnDevice(*parts.plan, {parts.lane, parts.timeout}, 1),
      agreement_(std::move(parts.communicator), *parts.lane, parts.counters) {}

void DeviceBucket::open(const Stamp& stamp) {
  BucketOnDevice::open(stamp);
  agreement_.reset();
  state_ = State::open;
}

void DeviceBucket::launch(const Reduction& reduction, bool as_void) {
  scale_ = reduction.whole_scale(agreement_.size());
  agreement_.start(flags(as_void), turn(), kVoid);
  state_ = State::launched;
}

const char* DeviceBucket::algorithm() {
  if (agreement_.size() == 1) return nullptr;
  return lane().route() == device::Route::shares_by_devices ? "hierarchical" : "nccl";
}

bool DeviceBucket::advance() {
  if (state_ == State::launched && agreement_.advance()) state_ = State::agreed;
  if (state_ == State::agreed && agreement_.takes_turn()) {
    if (!voided()) {
      const telemetry::Range range("kolo: reduce bucket", plan().bytes);
      memory().pack(scale_);
      begin_reduction();
      memory().sum();
      end_reduction();
    }
    state_ = State::complete;
  }
  return state_ == State::complete;
}

}  // namespace kolo::engine

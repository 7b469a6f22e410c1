#include "engine/staged_bucket.h"

#include "telemetry/range.h"

namespace kolo::engine {

StagedBucket::StagedBucket(StagedBucketParts parts)
    : BucketOnDevice(*parts.plan, {parts.lane, parts.timeout}),
      reduction_(*parts.plan, std::move(parts.reduction)),
      lock_(parts.lane->runtime(), parts.lane->device(), reduction_.data()) {}

void StagedBucket::open(const Stamp& stamp) {
  BucketOnDevice::open(stamp);
  reduction_.open();
  state_ = State::open;
}

void StagedBucket::launch(const Reduction& reduction, bool as_void) {
  how_ = reduction;
  if (as_void) {
    reduction_.start(how_, flags(true));
    state_ = State::reducing;
    return;
  }
  const telemetry::Range range("kolo: stage bucket", plan().bytes);
  memory().pack(1.0);
  begin_reduction();
  memory().fetch(reduction_.data());
  state_ = State::fetching;
}

bool StagedBucket::advance() {
  if (state_ == State::fetching && memory().fetched()) {
    reduction_.start(how_, flags(false));
    state_ = State::reducing;
  }
  if (state_ == State::reducing && reduction_.advance()) {
    if (!voided()) {
      memory().put(reduction_.data());
      end_reduction();
    }
    state_ = State::complete;
  }
  return state_ == State::complete;
}

std::vector<Rank> StagedBucket::waiting_for() const {
  return state_ == State::fetching ? std::vector<Rank>{reduction_.rank()} : reduction_.waiting_for();
}

}  // namespace kolo::engine

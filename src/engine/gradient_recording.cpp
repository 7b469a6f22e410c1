// The part of GradientRounds that launches buckets and waits for them, with marks for the step log and the timeline.
#include <algorithm>
#include <utility>

#include "engine/gradient_rounds.h"

namespace kolo::engine {

// A rank that is alone reduces nothing. On a device the recorder takes the times of events.
bool GradientRounds::is_recorded(std::size_t bucket) const {
  return host_.allocator().size() > 1 && !frozen_->plan.buckets[bucket].on_device;
}

void GradientRounds::launch(std::size_t bucket, bool as_void) {
  telemetry::Recorder& recorder = host_.step_recorder();
  if (recorder.is_on() && is_recorded(bucket)) {
    launched_at_.resize(std::max(launched_at_.size(), frozen_->buckets.size()));
    launched_at_[bucket] = recorder.now();
    recorder.reduction_began(frozen_->plan.buckets[bucket].bytes);
  }
  const Reduction reduction{settings_.options.op, settings_.options.prescale, settings_.options.postscale,
                            settings_.algorithm};
  frozen_->buckets[bucket]->launch(reduction, as_void);
  launched_.push_back(bucket);
}

void GradientRounds::note_complete(std::size_t bucket) {
  telemetry::Recorder& recorder = host_.step_recorder();
  const std::int64_t launched = bucket < launched_at_.size() ? std::exchange(launched_at_[bucket], 0) : 0;
  if (launched != 0) {
    recorder.reduction_ended();
    if (recorder.has_timeline()) {
      telemetry::TimelineEvent event;
      event.name = "reduction";
      event.algorithm = frozen_->buckets[bucket]->algorithm();
      event.begin_ns = launched;
      event.end_ns = recorder.now();
      event.bytes = frozen_->plan.buckets[bucket].bytes;
      event.round = round_;
      event.track = telemetry::bucket_track(settings_.id, bucket);
      recorder.add(event);
    }
  }
  {
    const std::scoped_lock lock(ready_lock_);
    complete_.push_back(bucket);
  }
  in_flight_.fetch_sub(1);
}

void GradientRounds::drive(const std::function<bool()>& done) {
  const telemetry::RecordedWait wait(host_.step_recorder());
  host_.drive_round(done, [this] { return awaited(); });
}

}  // namespace kolo::engine

#include "device/event_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kolo::device {
namespace {

std::int64_t nanoseconds(float milliseconds) { return std::llround(static_cast<double>(milliseconds) * 1e6); }

}  // namespace

EventClock::EventClock(cuda::RuntimePtr runtime, int device, telemetry::Recorder::Clock now)
    : runtime_(std::move(runtime)), device_(device), now_(std::move(now)) {}

EventClock::Reference EventClock::make_reference() {
  Reference made{cuda::Event(runtime_, device_, cuda::Timing::on)};
  made.recorded_at = made.time = now_();
  made.event.record(stream_->view());
  return made;
}

std::optional<EventClock::Mark> EventClock::record(Stream stream) {
  const cuda::DeviceGuard guard(*runtime_, device_);  // one switch, instead of one in each call
  if (cuda::is_captured(*runtime_, stream)) return std::nullopt;
  if (!reference_) {
    stream_.emplace(runtime_, device_, cuda::Priority::high);
    reference_ = make_reference();
  }
  if (free_.empty()) {
    free_.reserve(events_.size() + 1);  // so that release() allocates nothing
    events_.emplace_back(runtime_, device_, cuda::Timing::on);
    free_.push_back(static_cast<Mark>(events_.size() - 1));
  }
  events_[free_.back()].record(stream);
  const Mark mark = free_.back();
  free_.pop_back();
  return mark;
}

void EventClock::record_again(Mark mark, Stream stream) {
  const cuda::DeviceGuard guard(*runtime_, device_);
  if (!cuda::is_captured(*runtime_, stream)) events_[mark].record(stream);
}

std::optional<std::int64_t> EventClock::time_of(Mark mark) {
  const cuda::DeviceGuard guard(*runtime_, device_);
  if (next_) renew();
  const auto since = cuda::milliseconds_between(*runtime_, reference_->event, events_[mark]);
  if (!since) return std::nullopt;
  if (*since > kFar && !next_) next_ = make_reference();
  return reference_->time + nanoseconds(*since);
}

// The clocks of CPU and device drift apart. The new reference passed after it was recorded, and before this look.
void EventClock::renew() {
  const auto since = cuda::milliseconds_between(*runtime_, reference_->event, next_->event);
  if (!since) return;
  next_->time = std::clamp(reference_->time + nanoseconds(*since), next_->recorded_at, now_());
  reference_ = std::exchange(next_, std::nullopt);
}

}  // namespace kolo::device

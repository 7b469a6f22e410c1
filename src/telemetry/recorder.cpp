#include "telemetry/recorder.h"

#include <chrono>
#include <exception>
#include <utility>

namespace kolo::telemetry {
namespace {

const char* name_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::before_first_gradient:
      return "before first gradient";
    case Phase::backward:
      return "backward";
    case Phase::exposed:
      return "exposed";
    case Phase::optimizer:
      return "optimizer";
    case Phase::other:
      break;
  }
  return "other";
}

}  // namespace

std::int64_t Recorder::now_ns() noexcept {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Recorder::start_step_log(std::unique_ptr<StepLog> log) {
  const std::lock_guard lock(mutex_);
  start_account();
  log_ = std::move(log);
  on_.store(true, std::memory_order_release);
}

void Recorder::start_timeline(std::unique_ptr<Timeline> timeline) {
  const std::lock_guard lock(mutex_);
  start_account();
  timeline_ = std::move(timeline);
  account_.set_on_phase([this](Phase phase, std::int64_t begin, std::int64_t end) { follow(phase, begin, end); });
  timeline_on_.store(true, std::memory_order_release);
  on_.store(true, std::memory_order_release);
}

void Recorder::start_account() {
  if (is_on()) return;
  account_ = StepAccount();
  account_.start(clock_());
}

// Adjacent stretches of one phase are one span: hooks, updates of single weights.
void Recorder::follow(Phase phase, std::int64_t begin, std::int64_t end) {
  const char* const name = name_of(phase);
  if (phase_.name != name || phase_.end_ns != begin) {
    if (phase_.end_ns != 0) queue(phase_);
    phase_ = TimelineEvent{};
    phase_.name = name;
    phase_.begin_ns = begin;
    phase_.track = kPhaseTrack;
  }
  phase_.end_ns = end;
}

void Recorder::queue(const TimelineEvent& event) noexcept {
  counters_->timeline_events.add();
  timeline_->add(event);
}

void Recorder::stop_timeline() noexcept {
  std::unique_ptr<Timeline> last;  // is destroyed, which completes its file, after the lock is released
  const std::lock_guard lock(mutex_);
  if (timeline_ && phase_.end_ns != 0) queue(std::exchange(phase_, {}));
  timeline_on_.store(false, std::memory_order_release);
  on_.store(log_ != nullptr, std::memory_order_release);
  account_.set_on_phase({});
  last = std::move(timeline_);
}

void Recorder::stop() noexcept {
  stop_timeline();
  const std::lock_guard lock(mutex_);
  on_.store(false, std::memory_order_release);
  log_.reset();
}

// What a mark cannot do for lack of memory is lost, and training goes on.
template <class Mark>
void Recorder::mark(Mark&& mark) noexcept {
  if (!is_on()) return;
  try {
    const std::lock_guard lock(mutex_);
    mark(clock_());
  } catch (const std::exception&) {
  }
}

void Recorder::gradient_computed(std::uint64_t& pass, Stream /*stream*/) noexcept {
  mark([&](std::int64_t now) { account_.gradient_computed(pass, now); });
}

void Recorder::begin(StepPart part, Stream /*stream*/) noexcept {
  mark([&](std::int64_t now) { account_.begin(part, now); });
}

void Recorder::end(StepPart part, Stream /*stream*/) noexcept {
  mark([&](std::int64_t now) { account_.end(part, now); });
}

void Recorder::end_step(Stream /*stream*/) noexcept {
  mark([&](std::int64_t now) {
    const StepTimes times = account_.end_step(now);
    ++steps_;
    if (!log_) return;
    log_->write(steps_, times);
    counters_->steps_recorded.add();
  });
}

void Recorder::abandon_step() noexcept {
  mark([&](std::int64_t now) { account_.abandon_step(now); });
}

void Recorder::describe(const std::string& name, const std::string& value) noexcept {
  mark([&](std::int64_t) {
    if (log_) log_->describe(name, value);
  });
}

void Recorder::add(const TimelineEvent& event) noexcept {
  if (!has_timeline()) return;
  const std::lock_guard lock(mutex_);
  if (timeline_) queue(event);
}

void Recorder::wait_began() noexcept {
  mark([&](std::int64_t now) { account_.wait_began(now); });
}

void Recorder::wait_ended() noexcept {
  mark([&](std::int64_t now) { account_.wait_ended(now); });
}

void Recorder::reduction_began(std::uint64_t bytes) noexcept {
  mark([&](std::int64_t now) { account_.reduction_began(bytes, now); });
}

void Recorder::reduction_ended() noexcept {
  mark([&](std::int64_t now) { account_.reduction_ended(now); });
}

Span::Span(Recorder& recorder, const char* name, std::uint64_t bytes) noexcept
    : recorder_(recorder.has_timeline() ? &recorder : nullptr) {
  if (recorder_ == nullptr) return;
  event_.name = name;
  event_.bytes = bytes;
  event_.begin_ns = recorder_->now();
}

Span::~Span() {
  if (recorder_ == nullptr) return;
  event_.end_ns = recorder_->now();
  recorder_->add(event_);
}

}  // namespace kolo::telemetry

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
  const auto on_phase = [this](Phase phase, std::int64_t begin, std::int64_t end) { follow(phase, begin, end); };
  account_.set_on_phase(on_phase);
  device_.set_on_phase(on_phase);
  device_.set_on_reduction([this](const TimelineEvent& reduction) { queue(reduction); });
  timeline_on_.store(true, std::memory_order_release);
  on_.store(true, std::memory_order_release);
}

void Recorder::start_account() {
  if (is_on()) return;
  const std::int64_t now = clock_();
  account_.start(now);
  device_.start(now);
}

void Recorder::use_device_clock(std::unique_ptr<DeviceClock> clock, Warn warn) {
  const std::lock_guard lock(mutex_);
  if (device_.has_clock()) return;
  device_.set_clock(std::move(clock));
  warn_ = std::move(warn);
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
  mark([&](std::int64_t) { write_device_steps(); });
  std::unique_ptr<Timeline> last;  // is destroyed, which completes its file, after the lock is released
  const std::lock_guard lock(mutex_);
  if (timeline_ && phase_.end_ns != 0) queue(std::exchange(phase_, {}));
  timeline_on_.store(false, std::memory_order_release);
  on_.store(log_ != nullptr, std::memory_order_release);
  account_.set_on_phase({});
  device_.set_on_phase({});
  device_.set_on_reduction({});
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
  } catch (const Error& error) {  // of a device
    end_by(error);
  } catch (const std::exception&) {
  }
}

void Recorder::end_by(const Error& error) noexcept {
  Warn warn;
  {
    const std::lock_guard lock(mutex_);
    device_.set_clock(nullptr);
    warn = std::exchange(warn_, {});
  }
  stop();
  if (!warn) return;
  try {
    warn(std::string("step log and timeline: state=ended error=\"") + error.what() +
         "\". Training continues. Times come from the device, which has failed");
  } catch (const std::exception&) {  // no memory for the words
  }
}

void Recorder::write(const StepTimes& times) {
  ++steps_;
  if (log_ && log_->write(steps_, times)) counters_->steps_recorded.add();
}

void Recorder::write_device_steps() {
  while (const auto times = device_.take_step()) write(*times);
}

void Recorder::gradient_computed(std::uint64_t& pass, Stream stream) noexcept {
  mark([&](std::int64_t now) {
    stream.on_host() ? account_.gradient_computed(pass, now) : device_.gradient_computed(pass, stream);
  });
}

void Recorder::begin(StepPart part, Stream stream) noexcept {
  mark([&](std::int64_t now) {
    if (stream.on_host()) return account_.begin(part, now);
    device_.begin(part, stream);
    write_device_steps();
  });
}

void Recorder::end(StepPart part, Stream stream) noexcept {
  mark([&](std::int64_t now) { stream.on_host() ? account_.end(part, now) : device_.end(part, stream); });
}

void Recorder::end_step(Stream stream) noexcept {
  mark([&](std::int64_t now) {
    if (stream.on_host()) return write(account_.end_step(now));
    device_.end_step(stream);
    write_device_steps();
  });
}

void Recorder::abandon_step() noexcept {
  mark([&](std::int64_t now) {
    account_.abandon_step(now);
    device_.abandon_step(now);
  });
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

std::uint64_t Recorder::reduction_began(Stream stream) noexcept {
  std::uint64_t number = 0;
  mark([&](std::int64_t) { number = device_.reduction_began(stream); });
  return number;
}

void Recorder::reduction_ended(std::uint64_t number, const TimelineEvent& reduction, Stream stream) noexcept {
  if (number == 0) return;
  mark([&](std::int64_t) { device_.reduction_ended(number, reduction, stream); });
}

Span::Span(Recorder& recorder, const char* name, std::uint64_t bytes) noexcept
    : recorder_(recorder.has_timeline() && name != nullptr ? &recorder : nullptr) {
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

#pragma once
// The one place that takes the times of training steps. It feeds the step log and the timeline; without either, a mark
// costs one atomic load.
//
//   recorder.start_step_log(std::make_unique<StepLog>(path, head, warn));
//   recorder.reduction_began(bytes); ... recorder.reduction_ended();   // by the engine, around each bucket
//
// If the gradients lie on a device, its clock takes the times of marks, and the step log is some steps behind
// (device_marks.h).
//
// Thread-safe.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "kolo/error.h"
#include "kolo/spi/step_recorder.h"
#include "telemetry/counters.h"
#include "telemetry/device_marks.h"
#include "telemetry/step_account.h"
#include "telemetry/step_log.h"
#include "telemetry/timeline.h"

namespace kolo::telemetry {

class Recorder final : public StepRecorder {
 public:
  // Nanoseconds that never decrease.
  using Clock = std::function<std::int64_t()>;
  using Warn = std::function<void(const std::string&)>;

  Recorder() = default;
  // `counters` is borrowed; `clock` is for tests.
  explicit Recorder(Counters& counters, Clock clock = now_ns) : counters_(&counters), clock_(std::move(clock)) {}

  // steady_clock, which all processes of a host share.
  [[nodiscard]] static std::int64_t now_ns() noexcept;

  void start_step_log(std::unique_ptr<StepLog> log);
  // REQUIRES: no timeline is running.
  void start_timeline(std::unique_ptr<Timeline> timeline);
  void stop_timeline() noexcept;
  // For marks in streams of a device, which have no effect without it. The first clock is kept. If it fails, `warn`
  // gets one line, the step log and the timeline end, and training goes on.
  void use_device_clock(std::unique_ptr<DeviceClock> clock, Warn warn);
  // Completes both; steps that a device has not completed are left out. Later marks have no effect.
  void stop() noexcept;
  [[nodiscard]] bool has_timeline() const noexcept { return timeline_on_.load(std::memory_order_acquire); }

  [[nodiscard]] bool is_on() const noexcept override { return on_.load(std::memory_order_acquire); }
  void gradient_computed(std::uint64_t& pass, Stream stream) noexcept override;
  void begin(StepPart part, Stream stream) noexcept override;
  void end(StepPart part, Stream stream) noexcept override;
  void end_step(Stream stream) noexcept override;
  void abandon_step() noexcept override;
  void describe(const std::string& name, const std::string& value) noexcept override;

  // The training thread waits for reductions of gradients, from wait_began() to wait_ended().
  void wait_began() noexcept;
  void wait_ended() noexcept;
  // A reduction of gradients is in flight on this rank.
  void reduction_began(std::uint64_t bytes) noexcept;
  void reduction_ended() noexcept;
  // The same in `stream` of a device. Pass the number that reduction_began() returns to reduction_ended(); `reduction`
  // has all but the times. A reduction that does not end within its step does not count.
  [[nodiscard]] std::uint64_t reduction_began(Stream stream) noexcept;
  void reduction_ended(std::uint64_t number, const TimelineEvent& reduction, Stream stream) noexcept;
  // For the timeline. REQUIRES: the names in `event` are literals.
  void add(const TimelineEvent& event) noexcept;
  [[nodiscard]] std::int64_t now() const { return clock_(); }

 private:
  template <class Mark>
  void mark(Mark&& mark) noexcept;
  void start_account();
  void write(const StepTimes& times);
  void write_device_steps();
  void end_by(const Error& error) noexcept;
  void follow(Phase phase, std::int64_t begin, std::int64_t end);
  void queue(const TimelineEvent& event) noexcept;

  Counters* counters_ = nullptr;
  Clock clock_ = now_ns;
  std::atomic<bool> on_{false};
  std::atomic<bool> timeline_on_{false};
  std::mutex mutex_;     // guards everything from here on
  StepAccount account_;  // of marks on the host
  DeviceMarks device_;
  Warn warn_;  // of a device that fails
  std::uint64_t steps_ = 0;
  std::unique_ptr<StepLog> log_;
  std::unique_ptr<Timeline> timeline_;
  TimelineEvent phase_;  // not queued yet: the next stretch may belong to it
};

// The training thread waits for reductions, from constructor to destructor.
class RecordedWait {
 public:
  explicit RecordedWait(Recorder& recorder) noexcept : recorder_(recorder) { recorder_.wait_began(); }
  ~RecordedWait() { recorder_.wait_ended(); }
  RecordedWait(const RecordedWait&) = delete;
  RecordedWait& operator=(const RecordedWait&) = delete;

 private:
  Recorder& recorder_;
};

// A span of the timeline, from constructor to destructor. With a null name it has no effect.
class Span {
 public:
  Span(Recorder& recorder, const char* name, std::uint64_t bytes = 0) noexcept;
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Recorder* recorder_;  // null: no timeline
  TimelineEvent event_;
};

}  // namespace kolo::telemetry

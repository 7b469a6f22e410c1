#pragma once
// Marks of a training step, for the step log (Config::step_log) and the timeline; for bindings of frameworks.
//
//   kolo::StepRecorder& recorder = context.engine().step_recorder();
//   recorder.gradient_computed(pass_of_this_gradient, stream);                  // in each hook of backward
//   { kolo::RecordedPart part(recorder, kolo::StepPart::synchronize, stream); reducer->finish(); }
//   { kolo::RecordedPart part(recorder, kolo::StepPart::update, stream); step(); }
//   recorder.end_step(stream);
#include <cstdint>
#include <string>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// synchronize: the call that waits for reduced gradients. update: the update of weights, also inside synchronize.
enum class StepPart : std::uint8_t { synchronize, update };

// `stream` computes the gradients or uses the results. For a device stream, times are those of events in it.
// No call waits for a device, throws or sends a message.
// Calls are thread-safe; the marks of one step must not overlap in time.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  // True while there is a step log or a timeline. If false, the other calls have no effect.
  [[nodiscard]] virtual bool is_on() const noexcept = 0;
  // In a hook. `pass` belongs to one gradient and is 0 at first: if a gradient is computed again, a new pass begins.
  virtual void gradient_computed(std::uint64_t& pass, Stream stream) noexcept = 0;
  virtual void begin(StepPart part, Stream stream) noexcept = 0;
  virtual void end(StepPart part, Stream stream) noexcept = 0;
  // The step is complete: the weights are updated, or the update was skipped.
  virtual void end_step(Stream stream) noexcept = 0;
  // The step failed: it gets no line, and the time of the next step begins now.
  virtual void abandon_step() noexcept = 0;
  // A fact about the run for the head of the step log, such as ("libtorch", "2.11.0").
  virtual void describe(const std::string& name, const std::string& value) noexcept = 0;
};

// A part of a step, from constructor to destructor.
class RecordedPart {
 public:
  RecordedPart(StepRecorder& recorder, StepPart part, Stream stream) noexcept
      : recorder_(recorder), part_(part), stream_(stream) {
    recorder_.begin(part_, stream_);
  }
  ~RecordedPart() { recorder_.end(part_, stream_); }
  RecordedPart(const RecordedPart&) = delete;
  RecordedPart& operator=(const RecordedPart&) = delete;

 private:
  StepRecorder& recorder_;
  StepPart part_;
  Stream stream_;
};

}  // namespace kolo

#pragma once
// The account of one rank's training steps: every nanosecond of a step belongs to one field of StepTimes.
//
//   end of step                                                                          end of step
//   |  before first gradient  |  backward  | other |   exposed   | optimizer | other |       |
//                             ^ first hook ^ last hook           ^ begin(update)
//                                                  ^ begin(synchronize)
//   communication:               [ reduction ] [  reduction  ]
//
// A mark says what happened at a time in nanoseconds. Times never decrease. Not thread-safe.
#include <cstdint>
#include <functional>

#include "kolo/spi/step_recorder.h"

namespace kolo::telemetry {

enum class Phase : std::uint8_t { before_first_gradient, backward, exposed, optimizer, other };

struct StepTimes {
  std::int64_t start_ns = 0;
  std::int64_t step_ns = 0;  // the sum of the next five
  std::int64_t before_first_gradient_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t exposed_ns = 0;
  std::int64_t optimizer_ns = 0;
  std::int64_t other_ns = 0;
  std::int64_t communication_ns = 0;  // during which any reduction was in flight
  std::int64_t synchronize_ns = 0;    // from the start to the first begin(synchronize); 0: there was none
  std::uint64_t reductions = 0;
  std::uint64_t reduced_bytes = 0;
};

class StepAccount {
 public:
  // Called for each stretch of time once its phase is known, in order of time. Empty: no calls.
  using OnPhase = std::function<void(Phase phase, std::int64_t begin_ns, std::int64_t end_ns)>;
  void set_on_phase(OnPhase on_phase) { on_phase_ = std::move(on_phase); }

  // The first step begins. Gradients may still have the numbers of earlier passes, so those are not given again.
  void start(std::int64_t now) noexcept;
  void gradient_computed(std::uint64_t& pass, std::int64_t now);
  void begin(StepPart part, std::int64_t now);
  void end(StepPart part, std::int64_t now);
  // The training thread waits for reductions, or does so no longer.
  void wait_began(std::int64_t now);
  void wait_ended(std::int64_t now);
  void reduction_began(std::uint64_t bytes, std::int64_t now);
  void reduction_ended(std::int64_t now);
  StepTimes end_step(std::int64_t now);
  void abandon_step(std::int64_t now);

 private:
  // Outside a StepPart, the next mark decides the phase of the time since the last one.
  enum class Stage : std::uint8_t { forward, backward, closing };
  void open_step(std::int64_t now) noexcept;
  void advance(std::int64_t now);
  void settle(Phase phase);
  void add(Phase phase, std::int64_t begin, std::int64_t end);

  StepTimes times_;
  Stage stage_ = Stage::forward;
  std::int64_t last_ = 0;        // the last mark
  std::int64_t open_since_ = 0;  // [open_since_, last_) has no phase yet
  std::uint64_t pass_ = 0;       // number of the last pass of backward, over all steps
  int synchronizing_ = 0;
  int updating_ = 0;
  int waiting_ = 0;
  int in_flight_ = 0;
  OnPhase on_phase_;
};

}  // namespace kolo::telemetry

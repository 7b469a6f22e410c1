#include "telemetry/step_account.h"

#include <utility>

namespace kolo::telemetry {

void StepAccount::start(std::int64_t now) noexcept {
  synchronizing_ = updating_ = waiting_ = in_flight_ = 0;
  open_step(now);
}

void StepAccount::open_step(std::int64_t now) noexcept {
  last_ = open_since_ = now;
  times_ = StepTimes{};
  times_.start_ns = now;
  stage_ = Stage::forward;
}

void StepAccount::add(Phase phase, std::int64_t begin, std::int64_t end) {
  if (end == begin) return;
  switch (phase) {
    case Phase::before_first_gradient:
      times_.before_first_gradient_ns += end - begin;
      break;
    case Phase::backward:
      times_.backward_ns += end - begin;
      break;
    case Phase::exposed:
      times_.exposed_ns += end - begin;
      break;
    case Phase::optimizer:
      times_.optimizer_ns += end - begin;
      break;
    case Phase::other:
      times_.other_ns += end - begin;
      break;
  }
  if (on_phase_) on_phase_(phase, begin, end);
}

void StepAccount::settle(Phase phase) {
  add(phase, open_since_, last_);
  open_since_ = last_;
}

// Time inside a part has its phase at once; time outside stays open.
void StepAccount::advance(std::int64_t now) {
  const std::int64_t begin = std::exchange(last_, now);
  if (in_flight_ > 0) times_.communication_ns += now - begin;
  if (updating_ == 0 && synchronizing_ == 0) return;
  Phase phase = Phase::other;
  if (updating_ > 0) {
    phase = Phase::optimizer;
  } else if (waiting_ > 0 && in_flight_ > 0) {
    phase = Phase::exposed;
  }
  add(phase, begin, now);
  open_since_ = now;
}

void StepAccount::gradient_computed(std::uint64_t& pass, std::int64_t now) {
  advance(now);
  const bool same_pass = stage_ == Stage::backward && pass != pass_;
  if (!same_pass) ++pass_;
  settle(same_pass ? Phase::backward : Phase::before_first_gradient);
  pass = pass_;
  stage_ = Stage::backward;
}

void StepAccount::begin(StepPart part, std::int64_t now) {
  advance(now);
  if (updating_ == 0 && synchronizing_ == 0) {
    settle(stage_ == Stage::forward ? Phase::before_first_gradient : Phase::other);
    stage_ = Stage::closing;
  }
  if (part == StepPart::synchronize) {
    if (times_.synchronize_ns == 0) times_.synchronize_ns = now - times_.start_ns;
    ++synchronizing_;
  } else {
    ++updating_;
  }
}

void StepAccount::end(StepPart part, std::int64_t now) {
  advance(now);
  int& depth = part == StepPart::synchronize ? synchronizing_ : updating_;
  if (depth > 0) --depth;
}

void StepAccount::wait_began(std::int64_t now) {
  advance(now);
  ++waiting_;
}

void StepAccount::wait_ended(std::int64_t now) {
  advance(now);
  if (waiting_ > 0) --waiting_;
}

void StepAccount::reduction_began(std::uint64_t bytes, std::int64_t now) {
  advance(now);
  ++in_flight_;
  ++times_.reductions;
  times_.reduced_bytes += bytes;
}

void StepAccount::reduction_ended(std::int64_t now) {
  advance(now);
  if (in_flight_ > 0) --in_flight_;
}

StepTimes StepAccount::end_step(std::int64_t now) {
  advance(now);
  settle(stage_ == Stage::forward ? Phase::before_first_gradient : Phase::other);
  times_.step_ns = now - times_.start_ns;
  const StepTimes times = times_;
  open_step(now);
  return times;
}

void StepAccount::abandon_step(std::int64_t now) {
  advance(now);
  settle(Phase::other);
  synchronizing_ = updating_ = 0;
  open_step(now);
}

}  // namespace kolo::telemetry

#include "telemetry/device_marks.h"

#include <algorithm>
#include <utility>

namespace kolo::telemetry {

void DeviceMarks::set_clock(std::unique_ptr<DeviceClock> clock) {
  steps_ = std::deque<Step>(1);  // marks belong to the clock before
  last_gradient_.reset();
  clock_ = std::move(clock);
}

void DeviceMarks::start(std::int64_t now) {
  for (Step& step : steps_) release(step);
  steps_ = std::deque<Step>(1);
  in_backward_ = false;
  last_gradient_.reset();
  account_.start(now);
  replayed_until_ = now;
}

DeviceMarks::Mark* DeviceMarks::add(Kind kind, Stream stream) {
  if (clock_ == nullptr) return nullptr;
  const auto event = clock_->record(stream);
  if (!event) return nullptr;
  Mark mark;
  mark.kind = kind;
  mark.event = *event;
  return &steps_.back().marks.emplace_back(mark);
}

// As StepAccount tells passes apart. Only two events for each: a step of a large model has hundreds of gradients.
void DeviceMarks::gradient_computed(std::uint64_t& pass, Stream stream) {
  const bool same_pass = in_backward_ && pass != pass_;
  if (!same_pass) {
    ++pass_;
    last_gradient_.reset();
    add(Kind::first_gradient, stream);
  } else if (last_gradient_) {
    clock_->record_again(*last_gradient_, stream);
  } else if (const Mark* const mark = add(Kind::last_gradient, stream)) {
    last_gradient_ = mark->event;
  }
  pass = pass_;
  in_backward_ = true;
}

void DeviceMarks::begin(StepPart part, Stream stream) {
  in_backward_ = false;
  add(part == StepPart::synchronize ? Kind::begin_synchronize : Kind::begin_update, stream);
}

void DeviceMarks::end(StepPart part, Stream stream) {
  add(part == StepPart::synchronize ? Kind::end_synchronize : Kind::end_update, stream);
}

std::uint64_t DeviceMarks::reduction_began(Stream stream) {
  Mark* const mark = add(Kind::reduction_open, stream);
  if (mark == nullptr) return 0;
  return mark->number = ++reductions_;
}

void DeviceMarks::reduction_ended(std::uint64_t number, const TimelineEvent& reduction, Stream stream) {
  const auto is_it = [number](const Mark& mark) { return mark.kind == Kind::reduction_open && mark.number == number; };
  if (std::ranges::none_of(steps_.back().marks, is_it)) return;  // of a step that was abandoned
  Mark* const ended = add(Kind::reduction_ended, stream);
  if (ended == nullptr) return;
  ended->number = number;
  ended->reduction = reduction;
  const auto began = std::ranges::find_if(steps_.back().marks, is_it);
  began->kind = Kind::reduction_began;
  began->reduction = reduction;
}

void DeviceMarks::end_step(Stream stream) {
  if (clock_ == nullptr) return;
  steps_.back().end = clock_->record(stream);
  if (!steps_.back().end) return abandon_step(replayed_until_);
  steps_.emplace_back();
  in_backward_ = false;
}

void DeviceMarks::abandon_step(std::int64_t now) {
  if (clock_ == nullptr) return;
  release(steps_.back());
  steps_.back().abandoned_at = now;
  steps_.emplace_back();
  in_backward_ = false;
}

std::optional<StepTimes> DeviceMarks::take_step() {
  while (steps_.size() > 1) {
    Step& step = steps_.front();
    if (step.end) {
      std::int64_t end = 0;
      if (!learn_times(step, end)) return std::nullopt;
      const StepTimes times = replay(step, end);
      release(step);
      steps_.pop_front();
      return times;
    }
    replayed_until_ = std::max(replayed_until_, step.abandoned_at);
    account_.abandon_step(replayed_until_);
    steps_.pop_front();
  }
  return std::nullopt;
}

// The end first: mostly it is the last that the device passes.
bool DeviceMarks::learn_times(Step& step, std::int64_t& end) {
  const auto time = clock_->time_of(*step.end);
  if (!time) return false;
  end = *time;
  for (Mark& mark : step.marks) {
    const auto passed = clock_->time_of(mark.event);
    if (!passed) return false;
    mark.time = *passed;
  }
  return true;
}

StepTimes DeviceMarks::replay(Step& step, std::int64_t end) {
  std::ranges::stable_sort(step.marks, {}, &Mark::time);
  for (Mark& mark : step.marks) {
    mark.time = replayed_until_ = std::max(replayed_until_, mark.time);  // times of an account never decrease
    replay(mark, step.marks);
  }
  replayed_until_ = std::max(replayed_until_, end);
  return account_.end_step(replayed_until_);
}

void DeviceMarks::replay(Mark& mark, const std::vector<Mark>& marks) {
  std::uint64_t other_gradient = 0;
  switch (mark.kind) {
    case Kind::first_gradient:  // of which the account knows that the last pass had it
      return account_.gradient_computed(replayed_pass_, mark.time);
    case Kind::last_gradient:
      account_.gradient_computed(other_gradient, mark.time);
      replayed_pass_ = other_gradient;
      return;
    case Kind::begin_synchronize:
      account_.begin(StepPart::synchronize, mark.time);
      return account_.wait_began(mark.time);
    case Kind::end_synchronize:
      account_.wait_ended(mark.time);
      return account_.end(StepPart::synchronize, mark.time);
    case Kind::begin_update:
      return account_.begin(StepPart::update, mark.time);
    case Kind::end_update:
      return account_.end(StepPart::update, mark.time);
    case Kind::reduction_open:
      return;
    case Kind::reduction_began:
      return account_.reduction_began(mark.reduction.bytes, mark.time);
    case Kind::reduction_ended:
      account_.reduction_ended(mark.time);
      break;
  }
  if (!on_reduction_) return;
  const auto began = std::ranges::find_if(
      marks, [&](const Mark& each) { return each.kind == Kind::reduction_began && each.number == mark.number; });
  mark.reduction.begin_ns = began->time;
  mark.reduction.end_ns = mark.time;
  on_reduction_(mark.reduction);
}

void DeviceMarks::release(Step& step) noexcept {
  for (const Mark& mark : step.marks) clock_->release(mark.event);
  step.marks.clear();
  if (step.end) clock_->release(*step.end);
  step.end.reset();
}

}  // namespace kolo::telemetry

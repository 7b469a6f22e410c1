#pragma once
// The marks of training steps whose gradients lie on a device. While the device executes a step, the CPU is ahead of it
// and marks the next one. When the device has passed all marks of a step, they are replayed into a StepAccount in order
// of time.
//
//   CPU      mark, mark, end_step | mark, mark, end_step | mark     step 1 is complete: replay
//   device                          [ step 1 .............. ][ step 2 .......
//
// Between the marks of `synchronize`, the stream only waits for reductions: all of this time is a wait.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kolo/spi/step_recorder.h"
#include "telemetry/device_clock.h"
#include "telemetry/step_account.h"
#include "telemetry/timeline.h"

namespace kolo::telemetry {

// Without a clock, marks have no effect. Not thread-safe. Calls throw what the clock throws.
class DeviceMarks {
 public:
  using OnReduction = std::function<void(const TimelineEvent&)>;

  void set_clock(std::unique_ptr<DeviceClock> clock);
  [[nodiscard]] bool has_clock() const noexcept { return clock_ != nullptr; }
  // For the timeline, while steps are replayed. Empty: no calls.
  void set_on_phase(StepAccount::OnPhase on_phase) { account_.set_on_phase(std::move(on_phase)); }
  void set_on_reduction(OnReduction on_reduction) { on_reduction_ = std::move(on_reduction); }

  // The first step begins; earlier marks are dropped.
  void start(std::int64_t now);
  void gradient_computed(std::uint64_t& pass, Stream stream);
  void begin(StepPart part, Stream stream);
  void end(StepPart part, Stream stream);
  // A reduction begins in `stream`. Returns its number, for reduction_ended(); 0: none.
  [[nodiscard]] std::uint64_t reduction_began(Stream stream);
  // `reduction`: for the timeline, all but the times. Without this call, the reduction does not count.
  void reduction_ended(std::uint64_t number, const TimelineEvent& reduction, Stream stream);
  void end_step(Stream stream);
  void abandon_step(std::int64_t now);
  // The next step that the device has completed; nothing: it is still at work.
  [[nodiscard]] std::optional<StepTimes> take_step();

 private:
  enum class Kind : std::uint8_t {
    first_gradient,  // of a pass
    last_gradient,
    begin_synchronize,
    end_synchronize,
    begin_update,
    end_update,
    reduction_open,  // it has not ended: does not count
    reduction_began,
    reduction_ended
  };
  struct Mark {
    Kind kind = Kind::first_gradient;
    DeviceClock::Mark event = 0;
    std::int64_t time = 0;     // once known
    std::uint64_t number = 0;  // of a reduction
    TimelineEvent reduction{};
  };
  struct Step {
    std::vector<Mark> marks;
    std::optional<DeviceClock::Mark> end;
    std::int64_t abandoned_at = 0;  // if there is no end
  };
  Mark* add(Kind kind, Stream stream);
  [[nodiscard]] bool learn_times(Step& step, std::int64_t& end);
  [[nodiscard]] StepTimes replay(Step& step, std::int64_t end);
  void replay(Mark& mark, const std::vector<Mark>& marks);
  void release(Step& step) noexcept;

  std::unique_ptr<DeviceClock> clock_;
  OnReduction on_reduction_;
  std::deque<Step> steps_ = std::deque<Step>(1);  // the last one is open
  bool in_backward_ = false;
  std::uint64_t pass_ = 0;                          // number of the last pass
  std::optional<DeviceClock::Mark> last_gradient_;  // of this pass
  std::uint64_t reductions_ = 0;                    // the last number that reduction_began() returned

  StepAccount account_;
  std::int64_t replayed_until_ = 0;
  std::uint64_t replayed_pass_ = 0;  // what the account calls the last pass
};

}  // namespace kolo::telemetry

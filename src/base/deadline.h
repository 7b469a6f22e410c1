#pragma once
#include <chrono>

namespace kolo::base {

// A point in time after which waiting is an error.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  template <class Rep, class Period>
  explicit Deadline(std::chrono::duration<Rep, Period> from_now) : at_(Clock::now() + clamped(from_now)) {}
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= at_; }
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept {
    const auto rest = at_ - Clock::now();
    return rest.count() > 0 ? rest : std::chrono::nanoseconds{0};
  }

 private:
  static constexpr std::chrono::hours kLongest{24 * 365};

  // Compared as doubles: hours::max(), in nanoseconds, overflows.
  template <class Rep, class Period>
  static constexpr Clock::duration clamped(std::chrono::duration<Rep, Period> time) noexcept {
    using Seconds = std::chrono::duration<double>;
    if (Seconds(time) >= Seconds(kLongest)) return kLongest;
    if (Seconds(time) <= Seconds(-kLongest)) return -kLongest;
    return std::chrono::duration_cast<Clock::duration>(time);
  }

  Clock::time_point at_;
};

}  // namespace kolo::base

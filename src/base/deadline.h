#pragma once
#include <algorithm>
#include <chrono>

namespace kolo::base {

// A point in time after which waiting is an error.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(std::chrono::nanoseconds from_now) : at_(Clock::now() + std::min(from_now, kLongest)) {}
  [[nodiscard]] bool passed() const noexcept { return Clock::now() >= at_; }
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept {
    const auto rest = at_ - Clock::now();
    return rest.count() > 0 ? rest : std::chrono::nanoseconds{0};
  }

 private:
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);  // no overflow
  Clock::time_point at_;
};

}  // namespace kolo::base

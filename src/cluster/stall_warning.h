#pragma once
// Warnings of a wait that has no end in sight: the first after an interval, then one for each further interval.
#include <chrono>
#include <functional>
#include <string>

#include "base/deadline.h"

namespace kolo::cluster {

struct StallWarning {
  std::chrono::milliseconds interval{0};         // 0: never
  std::function<void(const std::string&)> tell;  // called from any thread
};

// For a loop that looks at something now and then.
class StallClock {
 public:
  explicit StallClock(std::chrono::milliseconds interval) : interval_(interval), next_(interval) {}
  // If another interval has passed: the duration of the wait so far, in whole intervals. Else 0.
  [[nodiscard]] std::chrono::milliseconds take() {
    if (interval_.count() <= 0 || !next_.passed()) return std::chrono::milliseconds{0};
    next_ = base::Deadline(interval_);
    return ++count_ * interval_;
  }

 private:
  std::chrono::milliseconds interval_;
  base::Deadline next_;
  int count_ = 0;
};

}  // namespace kolo::cluster

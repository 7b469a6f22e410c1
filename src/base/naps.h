#pragma once
// For who waits for something that does not wake anybody.
#include <algorithm>
#include <chrono>
#include <thread>

namespace kolo::base {

// Yields for a while, because most waits are short, then sleeps, each time twice as long: many who wait on few cores
// leave them to those who are waited for.
class Naps {
 public:
  void take() {
    if (yields_ > 0) {
      --yields_;
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kLongest{1000};
  int yields_ = 64;
  std::chrono::microseconds next_{20};
};

}  // namespace kolo::base

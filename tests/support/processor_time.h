#pragma once
// What this process costs while it waits for nothing.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "support/sanitizers.h"

namespace kolo::test {

inline std::chrono::microseconds processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// As a part of a core: the least of three times, since what else the machine does (cold caches, interrupts) only adds.
inline double idle_cost() {
  constexpr std::chrono::microseconds kTime = std::chrono::milliseconds(1500);
  std::chrono::microseconds least = kTime;
  for (int i = 0; i < 3; ++i) {
    const auto before = processor_time();
    std::this_thread::sleep_for(kTime);
    least = std::min(least, processor_time() - before);
  }
  return static_cast<double>(least.count()) / static_cast<double>(kTime.count());
}
// Where idle_cost() is judged; sanitizers have a part in it.
inline constexpr double kIdleCost = kSanitized ? 0.02 : 0.005;

}  // namespace kolo::test

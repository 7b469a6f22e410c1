#pragma once
// What this process does while it waits for nothing. `kolo perf engine` measures what that costs; a test looks whether
// something spins or polls, which does not depend on what else the machine does.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace kolo::test {

struct Rest {
  double cores = 0;   // busy
  double sleeps = 0;  // a second, of all threads: each was awake before
};

// The least of three times: what else happens in a process (starting up, winding down) only adds.
inline Rest rest() {
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kTime(0.7);
  const auto busy = [](const rusage& usage) {
    const auto of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  Rest least{1e9, 1e9};
  for (int i = 0; i < 3; ++i) {
    rusage before{};
    rusage after{};
    getrusage(RUSAGE_SELF, &before);
    std::this_thread::sleep_for(kTime);
    getrusage(RUSAGE_SELF, &after);
    least.cores = std::min(least.cores, (busy(after) - busy(before)) / kTime.count());
    least.sleeps = std::min(least.sleeps, static_cast<double>(after.ru_nvcsw - before.ru_nvcsw) / kTime.count());
  }
  return least;
}

// A coordinator looks 20 times a second and a monitor wakes once; a wait that polls once a millisecond, or spins,
// shows.
inline void expect_rest(int ranks) {
  const auto now = rest();
  EXPECT_LT(now.sleeps, 100 + 25.0 * ranks) << "something polls";
  EXPECT_LT(now.cores, 0.25) << "something spins";
}

}  // namespace kolo::test

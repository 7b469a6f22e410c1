#pragma once
// Ranks as threads of a test.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/sanitizers.h"

namespace kolo::test {

// Ends the program with a text when it is not destroyed in time: a thread that hangs cannot be ended otherwise.
class Watchdog {
 public:
  Watchdog(std::string what, std::chrono::seconds after)
      : what_(std::move(what)), thread_([this, after] { watch(after); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch(std::chrono::seconds after) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, after, [this] { return over_; })) return;
    std::fprintf(stderr, "watchdog: %s did not end within %lld s\n", what_.c_str(),
                 static_cast<long long>(after.count()));
    std::fflush(stderr);
    std::abort();
  }

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

// Several times what anybody takes on a busy machine.
inline constexpr std::chrono::seconds kRanksLimit{kSanitized ? 360 : 90};

// Calls fn(rank) on n threads and waits for all. Rethrows the first exception (by time) as a std::runtime_error that
// names its rank. Aborts the program when it takes longer than `limit`.
template <class F>
void run_ranks(int n, F&& fn, std::chrono::seconds limit = kRanksLimit) {
  const Watchdog watchdog("run_ranks(" + std::to_string(n) + ")", limit);
  std::mutex mutex;
  std::string first;
  const auto note = [&](int rank, const char* what) {
    const std::lock_guard lock(mutex);
    if (first.empty()) first = "rank " + std::to_string(rank) + ": " + what;
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        fn(rank);
      } catch (const std::exception& error) {
        note(rank, error.what());
      } catch (...) {
        note(rank, "an exception that is no std::exception");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (!first.empty()) throw std::runtime_error(first);
}

}  // namespace kolo::test

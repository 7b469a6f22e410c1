#pragma once
// Ranks as threads of a test.
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/sanitizers.h"

namespace kolo::test {

// Ends the program with a text, and what `known` says then, when it is not destroyed in time: a thread that hangs
// cannot be ended otherwise.
class Watchdog {
 public:
  Watchdog(std::string what, std::chrono::seconds after, std::function<std::string()> known = {})
      : what_(std::move(what)), known_(std::move(known)), thread_([this, after] { watch(after); }) {}
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
    std::fprintf(stderr, "watchdog: %s did not end within %lld s%s\n", what_.c_str(),
                 static_cast<long long>(after.count()), known_ ? known_().c_str() : "");
    std::fflush(stderr);
    std::abort();
  }

  std::string what_;
  std::function<std::string()> known_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

// A place where ranks meet, for one of them: a rank that leaves early, by an exception, is waited for no longer.
// Without that the others would hang in the barrier, and nobody would see the exception. Make it first: what is made
// after it is gone before the others go on.
class Attendance {
 public:
  explicit Attendance(std::barrier<>& all) : all_(all) {}
  ~Attendance() { all_.arrive_and_drop(); }
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;
  void meet() { all_.arrive_and_wait(); }

 private:
  std::barrier<>& all_;
};

// Several times what anybody takes on a busy machine.
inline constexpr std::chrono::seconds kRanksLimit{kSanitized ? 360 : 90};

// Calls fn(rank) on n threads and waits for all. Rethrows the first exception (by time) as a std::runtime_error that
// names its rank. Aborts the program when it takes longer than `limit`, and says the exception then.
template <class F>
void run_ranks(int n, F&& fn, std::chrono::seconds limit = kRanksLimit) {
  std::mutex mutex;
  std::string first;
  const Watchdog watchdog("run_ranks(" + std::to_string(n) + ")", limit, [&] {
    const std::lock_guard lock(mutex);
    return first.empty() ? std::string() : "; before that " + first;
  });
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

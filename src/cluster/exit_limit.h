#pragma once
// A deadline for a call that has none and cannot be given up: MPI_Init and MPI_Finalize wait for every rank.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace kolo::cluster {

// Ends the process with `status` where it does not get past `call`, which is made while this lives, after a line on
// stderr that says so, the limit and its least value (`at_least`), and `why`. Throws BackendError where no thread can
// be had.
class ExitLimit {
 public:
  struct Words {
    std::string call;
    std::string at_least;
    std::string why;
  };
  // What is called each time that `interval` (0: never) has passed, with the time since the beginning.
  struct Reminder {
    std::chrono::milliseconds interval;
    std::function<void(std::chrono::milliseconds)> call;
  };
  ExitLimit(std::chrono::milliseconds limit, int status, const Words& words, Reminder reminder = {});
  ExitLimit(const ExitLimit&) = delete;
  ~ExitLimit();

 private:
  void watch(std::chrono::milliseconds limit, int status) noexcept;

  [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit);

  const std::string line_;
  const Reminder reminder_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace kolo::cluster

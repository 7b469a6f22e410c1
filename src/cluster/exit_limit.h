#pragma once
// A deadline for a call that has none and cannot be given up: MPI_Init and MPI_Finalize wait for every rank.
#include <chrono>
#include <condition_variable>
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
  ExitLimit(std::chrono::milliseconds limit, int status, const Words& words);
  ExitLimit(const ExitLimit&) = delete;
  ~ExitLimit();

 private:
  void watch(std::chrono::milliseconds limit, int status) noexcept;

  const std::string line_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace kolo::cluster

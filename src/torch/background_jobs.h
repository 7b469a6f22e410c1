#pragma once
// A thread of low priority that runs jobs one after the other.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace kolo {

class BackgroundJobs {
 public:
  // `limit`: how long the destructor waits for jobs. A job that takes longer, as on a file system that does not answer,
  // continues; it must own what it uses.
  explicit BackgroundJobs(std::chrono::milliseconds limit) : limit_(limit) {}
  ~BackgroundJobs();
  BackgroundJobs(const BackgroundJobs&) = delete;
  BackgroundJobs& operator=(const BackgroundJobs&) = delete;

  // `job` must not throw. Throws BackendError if the system has no thread.
  void post(std::function<void()> job);
  // True if all jobs have ended, at the latest after `time`.
  [[nodiscard]] bool wait(std::chrono::milliseconds time);

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;  // the first is running
    bool ends = false;
  };
  static void run(Queue& queue);

  std::chrono::milliseconds limit_;
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_;
};

}  // namespace kolo

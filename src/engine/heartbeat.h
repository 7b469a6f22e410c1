#pragma once
// A thread that does something again and again, and sleeps in between.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/start_thread.h"

namespace kolo::engine {

class Heartbeat {
 public:
  // `beat` is called for the first time after `interval`, and throws nothing.
  Heartbeat(std::chrono::milliseconds interval, std::function<void()> beat)
      : interval_(interval), beat_(std::move(beat)), thread_(base::start_thread("a heartbeat", [this] { run(); })) {}
  // Waits for a beat that is under way.
  ~Heartbeat() {
    {
      const std::scoped_lock lock(lock_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run() {
    std::unique_lock lock(lock_);
    while (!wake_.wait_for(lock, interval_, [this] { return stop_; })) {
      lock.unlock();
      beat_();
      lock.lock();
    }
  }

  std::chrono::milliseconds interval_;
  std::function<void()> beat_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool stop_ = false;   // guarded by lock_
  std::thread thread_;  // last: it uses everything above
};

}  // namespace kolo::engine

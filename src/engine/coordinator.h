#pragma once
// The thread that moves operations forward when nobody else does. Parked while nothing is pending, but for a slow
// heartbeat in which an idle rank answers those who ask where it is.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "telemetry/counters.h"

namespace kolo::engine {

struct CoordinatorParts {
  // Drives while anything is pending; returns when nothing is.
  std::function<void(const std::atomic<bool>& stop)> drive;
  std::function<bool()> pending;
  // How long to leave the work to the callers before looking: zero with cores to spare.
  std::chrono::microseconds patience{0};
  std::function<void()> heartbeat;          // null: none
  std::chrono::milliseconds interval{};     // between heartbeats
  telemetry::Counters* counters = nullptr;  // borrowed
};

class Coordinator {
 public:
  explicit Coordinator(CoordinatorParts parts);
  // Stops and joins; stop() first where what `drive` uses ends earlier.
  ~Coordinator();
  // There is work. Thread-safe; costs a system call only when the thread is parked.
  void notify();
  void stop();

 private:
  void run();
  bool park();

  CoordinatorParts parts_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> parked_{false};
  std::mutex lock_;
  std::condition_variable wake_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace kolo::engine

#pragma once
// An operation behind which nothing runs until it is opened.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "kolo/types.h"
#include "support/device/simulated_device.h"
#include "support/thread_ranks.h"

namespace kolo::test {

// May be in several streams. It lives as long as anything behind it. One that nobody opens opens by itself, and the
// test fails: a rank that has thrown would else wait for its device for ever, and nobody would see what it threw.
class Gate {
 public:
  explicit Gate(SimulatedDevice& device)
      : device_(device), timer_([this](const std::stop_token& end) { watch(end); }) {}
  void put_into(cuda::StreamHandle stream) {
    Operation operation;
    operation.what = "gate";
    operation.ready = [this] { return open_.load(); };
    device_.enqueue(stream, std::move(operation));
  }
  void put_into(Stream stream) { put_into(stream.handle); }
  void open() {
    open_ = true;
    device_.changed();
  }

 private:
  void watch(const std::stop_token& end) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, end, kRanksLimit / 2, [this] { return open_.load(); });
    if (open_ || end.stop_requested()) return;
    ADD_FAILURE() << "a gate that nobody opened";
    open();
  }

  SimulatedDevice& device_;
  std::atomic<bool> open_ = false;
  std::jthread timer_;  // last: it uses the others
};

}  // namespace kolo::test

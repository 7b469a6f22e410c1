#pragma once
// An operation behind which nothing runs until it is opened.
#include <atomic>

#include "kolo/stream.h"
#include "support/device/simulated_device.h"

namespace kolo::test {

// May be in several streams. It lives as long as anything behind it.
class Gate {
 public:
  explicit Gate(SimulatedDevice& device) : device_(device) {}
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
  SimulatedDevice& device_;
  std::atomic<bool> open_ = false;
};

}  // namespace kolo::test

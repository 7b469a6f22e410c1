#pragma once
// Streams as torch numbers them, and which of them is the current one in a thread.
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "support/device/simulated_device.h"

namespace kolo::test {

// Makes a device the current one of the thread for its life.
class OnDevice {
 public:
  OnDevice(const cuda::RuntimeApi& api, int device);
  ~OnDevice() { api_.set_device(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const cuda::RuntimeApi& api_;
  int before_ = 0;
};

// Stream 0 of every device is its default stream, whose handle is null; the others are of our making, not ordered with
// it. Thread-safe. Streams live until the end.
class TorchStreams {
 public:
  TorchStreams(const cuda::RuntimeApi& api, std::uint64_t generation) : api_(api), generation_(generation) {}

  [[nodiscard]] c10::Stream make(int device);
  [[nodiscard]] cuda::StreamHandle handle(const c10::Stream& stream) const;
  // What torch is told of it: the same, but where a test wants that to be wrong.
  [[nodiscard]] cuda::StreamHandle native_handle(const c10::Stream& stream) const {
    return lies_ ? nullptr : handle(stream);
  }
  void hand_out_default_streams() { lies_ = true; }
  [[nodiscard]] c10::Stream current(int device) const;
  c10::Stream exchange(const c10::Stream& stream) const;
  // Waits for all streams of a device; -1: of all devices.
  void synchronize(int device) const;
  void destroy_all();

 private:
  struct Made {
    int device;
    cuda::StreamHandle handle;
  };
  [[nodiscard]] c10::StreamId& current_id(int device) const;

  const cuda::RuntimeApi& api_;
  const std::uint64_t generation_;
  std::atomic<bool> lies_ = false;
  mutable std::mutex lock_;
  std::vector<Made> made_;  // stream n is the n-1st
};

}  // namespace kolo::test

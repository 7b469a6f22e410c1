#pragma once
// The simulated device as a backend of torch, under DeviceType::PrivateUse1: tensors live in its memory, operators are
// operations in its streams. README.md says what is simulated and what is not.
//
//   SimulatedDevice device({.devices = 2, .seed = seed});
//   TorchDevice torch_device(device);
//   at::Tensor x = at::ones({4, 3}, TorchDevice::at(0));
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>

#include "support/device/simulated_device.h"

namespace kolo::test {

class TorchBackend;

// One at a time in a process, inside the life of its SimulatedDevice. The destructor waits for what is enqueued, and
// fails the test for tensors that are left.
class TorchDevice {
 public:
  static constexpr c10::DeviceIndex kMost = 8;  // devices; autograd starts a thread for each, once in a process

  explicit TorchDevice(SimulatedDevice& device);
  ~TorchDevice();
  TorchDevice(const TorchDevice&) = delete;
  TorchDevice& operator=(const TorchDevice&) = delete;

  [[nodiscard]] static c10::Device at(int index) {
    return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
  }
  // A new one. The current one of every thread is the default stream at first.
  [[nodiscard]] c10::Stream make_stream(int index);

  // Makes recordDataPtrOnStream() do nothing, as if nobody had called it.
  void ignore_records();
  // Makes getStreamNativeHandle() answer with the default stream's, whatever stream it is asked for.
  void hand_out_default_streams();

  [[nodiscard]] int records() const;          // how often recordDataPtrOnStream() was called
  [[nodiscard]] int reused() const;           // allocations that were answered with memory of an earlier tensor
  [[nodiscard]] std::size_t tensors() const;  // that have memory now

 private:
  std::shared_ptr<TorchBackend> backend_;
};

}  // namespace kolo::test

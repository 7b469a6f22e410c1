#pragma once
// A device that kernels are launched on, of which a test knows no more than what it computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cuda/kernel.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace kolo::kernels::test {

class LaunchDevice {
 public:
  virtual ~LaunchDevice() = default;
  [[nodiscard]] virtual cuda::RuntimePtr runtime() const = 0;
  [[nodiscard]] virtual const void* image() const = 0;  // of the kernels
  // Both wait until everything in `stream` is done.
  virtual void write(std::byte* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void read(void* to, const std::byte* from, std::size_t bytes, Stream stream) = 0;
};

// Defined by simulated_launch_device.cpp or by tests/gpu.
[[nodiscard]] std::unique_ptr<LaunchDevice> make_launch_device();

class LaunchResults : public testing::Test {
 protected:
  // An allocation of its own, of just that size.
  template <class T>
  cuda::DeviceBuffer on_device(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    cuda::DeviceBuffer buffer(runtime, 0, std::max<std::size_t>(bytes, 1));
    if (bytes != 0) device->write(buffer.data(), values.data(), bytes, stream.view());
    return buffer;
  }
  // Once everything has run.
  template <class T>
  std::vector<T> values_of(const cuda::DeviceBuffer& buffer) {
    std::vector<T> values(buffer.size() / sizeof(T));
    device->read(values.data(), buffer.data(), values.size() * sizeof(T), stream.view());
    return values;
  }

  std::unique_ptr<LaunchDevice> device = make_launch_device();
  cuda::RuntimePtr runtime = device->runtime();
  cuda::KernelImage image{runtime, device->image()};
  cuda::OwnStream stream{runtime, 0};
};

}  // namespace kolo::kernels::test

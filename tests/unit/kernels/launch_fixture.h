#pragma once
// A simulated device with kolo's kernels, one stream of it, and memory on it.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cuda/kernel.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "support/device/kolo_kernels.h"
#include "support/device/simulated_device.h"

namespace kolo::kernels::test {

class Launch : public testing::Test {
 protected:
  Launch() { kolo::test::add_kolo_kernels(device); }

  template <class T>
  cuda::DeviceBuffer on_device(const std::vector<T>& values) {
    cuda::DeviceBuffer buffer(runtime, 0, std::max<std::size_t>(values.size() * sizeof(T), 1));
    if (!values.empty()) device.write(buffer.data(), values.data(), values.size() * sizeof(T));
    return buffer;
  }
  // Once everything has run.
  template <class T>
  std::vector<T> values_of(const cuda::DeviceBuffer& buffer) {
    device.drain();
    std::vector<T> values(buffer.size() / sizeof(T));
    device.peek(values.data(), buffer.data(), values.size() * sizeof(T));
    return values;
  }

  kolo::test::SimulatedDevice device{{.devices = 2, .seed = 11}};
  cuda::RuntimePtr runtime = std::make_shared<const cuda::Runtime>(device.api());
  cuda::KernelImage image{runtime, "the simulated device takes anything"};
  cuda::OwnStream stream{runtime, 0};
};

}  // namespace kolo::kernels::test

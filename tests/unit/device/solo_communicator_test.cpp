#include "device/solo_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "cuda/memory.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "support/device/simulated_device.h"

namespace kolo::device {
namespace {

using test::SimulatedDevice;

// Also where the same memory was another's before: the simulated device fills what is new with other bytes.
TEST(SoloCommunicator, MemoryIsZeroAtFirst) {
  SimulatedDevice device({.devices = 2});
  const auto runtime = std::make_shared<const cuda::Runtime>(device.api());
  const auto solo = make_solo(runtime, 1);
  const std::array<std::size_t, 3> sizes{1, 1000, 65536};
  for (const auto& buffer : solo->allocate(sizes, std::chrono::seconds(20))) {
    std::vector<std::byte> found(buffer->data().size(), std::byte{1});
    device.peek(found.data(), buffer->data().data(), found.size());
    EXPECT_EQ(std::ranges::count(found, std::byte{0}), static_cast<std::ptrdiff_t>(found.size()));
  }
  EXPECT_EQ(device.device_bytes(1), 0U);
}

TEST(SoloCommunicator, ADeviceThatDoesNotClearIsATimeout) {
  SimulatedDevice device;
  cuda::RuntimeApi api = device.api();
  static cuda::RuntimeApi real;
  static std::chrono::steady_clock::time_point done;
  real = api;
  done = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  api.stream_query = [](cuda::StreamHandle stream) {
    return std::chrono::steady_clock::now() < done ? cuda::kNotReady : real.stream_query(stream);
  };
  const auto solo = make_solo(std::make_shared<const cuda::Runtime>(api), 0);
  const std::size_t bytes = 8;
  EXPECT_THROW((void)solo->allocate({&bytes, 1}, std::chrono::milliseconds(20)), TimeoutError);
  EXPECT_EQ(device.device_bytes(0), 0U) << "released, once the device is done with it";
}

// What is being cleared already goes when that is done: what is released in use is a failure of the simulated device.
TEST(SoloCommunicator, ASecondBufferThatCannotBeHadTakesTheFirstWithIt) {
  SimulatedDevice device;
  const auto solo = make_solo(std::make_shared<const cuda::Runtime>(device.api()), 0);
  const std::array<std::size_t, 2> sizes{1000, std::size_t{1} << 45};
  EXPECT_THROW((void)solo->allocate(sizes, std::chrono::seconds(20)), cuda::NoDeviceMemory);
  EXPECT_EQ(device.device_bytes(0), 0U);
}

TEST(SoloCommunicator, CannotScale) {
  SimulatedDevice device;
  const auto solo = make_solo(std::make_shared<const cuda::Runtime>(device.api()), 0);
  AllreduceOptions options;
  EXPECT_TRUE(solo->start(options)->advance());
  options.prescale = 0.5;
  EXPECT_THROW((void)solo->start(options), UsageError);
}

}  // namespace
}  // namespace kolo::device

#include "cuda/memory.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda/stream.h"
#include "kolo/error.h"
#include "support/device/simulated_device.h"

namespace kolo::cuda {
namespace {

using test::SimulatedDevice;

class Memory : public ::testing::Test {
 protected:
  SimulatedDevice device_{{.devices = 2, .memory = 4096}};
  RuntimePtr runtime_ = std::make_shared<const Runtime>(device_.api());
};

TEST_F(Memory, IsOfTheDeviceThatWasAskedFor) {
  use_device(*runtime_, 1);
  {
    const DeviceBuffer buffer(runtime_, 0, 100);
    EXPECT_EQ(buffer.size(), 100U);
    EXPECT_EQ(buffer.device(), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
    EXPECT_EQ(device_.device_bytes(0), 100U);
    EXPECT_EQ(device_.device_bytes(1), 0U);
  }
  EXPECT_EQ(device_.device_bytes(0), 0U);
}

TEST_F(Memory, MovesWithItsOwner) {
  DeviceBuffer device(runtime_, 0, 100);
  PinnedBuffer pinned(runtime_, 0, 50);
  const std::byte* const data = device.data();
  {
    const DeviceBuffer moved(std::move(device));
    const PinnedBuffer also(std::move(pinned));
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(also.data().size(), 50U);
    EXPECT_EQ(device_.pinned_bytes(), 50U);
  }
  EXPECT_EQ(device_.device_bytes(0), 0U);
  EXPECT_EQ(device_.pinned_bytes(), 0U);
}

TEST_F(Memory, OfNoBytesAsksNobody) {
  const DeviceBuffer device(runtime_, 0, 0);
  const PinnedBuffer pinned(runtime_, 0, 0);
  const OwnStream stream(runtime_, 0);
  copy(*runtime_, device.data(), pinned.data().data(), 0, stream.view());
  fill_zero(*runtime_, device.data(), 0, stream.view());
  for (const char* const call : {"allocate", "allocate_pinned", "copy", "fill"}) EXPECT_EQ(device_.calls(call), 0);
}

TEST_F(Memory, ThatIsNotThereIsAnErrorWithTheBytes) {
  try {
    const DeviceBuffer buffer(runtime_, 1, 5000);
    ADD_FAILURE() << "there are 4096 bytes";
  } catch (const BackendError& error) {
    EXPECT_STREQ(error.what(), "cudaMalloc of 5000 bytes on device 1: cudaErrorMemoryAllocation (out of memory)");
  }
  device_.fail("allocate_pinned", 2);
  EXPECT_THROW(PinnedBuffer(runtime_, 0, 8), BackendError);
  EXPECT_EQ(device_.api().take_last_error(), kSuccess);
}

TEST_F(Memory, OfTheHostIsPageLockedForAWhile) {
  std::vector<std::byte> pages(3 * 4096);
  const std::span<std::byte> first(pages.data(), 100);
  {
    const PageLock lock(runtime_, 0, first);
    EXPECT_EQ(device_.pinned_bytes(), 100U);
    // Another piece of the same page is not.
    EXPECT_THROW(PageLock(runtime_, 0, std::span(pages).subspan(100, 8)), BackendError);
    const PageLock other(runtime_, 0, std::span(pages).subspan(2 * 4096, 8));
    EXPECT_EQ(device_.pinned_bytes(), 108U);
    const OwnStream stream(runtime_, 0);
    const DeviceBuffer buffer(runtime_, 0, 100);
    fill_zero(*runtime_, buffer.data(), 100, stream.view());
    first[99] = std::byte{7};
    copy(*runtime_, first.data(), buffer.data(), 100, stream.view());
    while (!stream.idle()) {
    }
    device_.host_reads(first.data(), 100);
    EXPECT_EQ(first[99], std::byte{0});
  }
  EXPECT_EQ(device_.pinned_bytes(), 0U);
  const PageLock none(runtime_, 0, {});
  EXPECT_EQ(device_.calls("register_host"), 3);
}

// Of the calls that make a context on the current device: which one that was.
struct Contexts {
  RuntimeApi real;
  std::vector<int> devices;
  void note() {
    int current = -1;
    EXPECT_EQ(real.get_device(&current), kSuccess);
    devices.push_back(current);
  }
};
Contexts* contexts = nullptr;  // the table's calls have no other way to it

RuntimeApi noting_contexts(const RuntimeApi& real) {
  RuntimeApi api = real;
  api.release = [](void* memory) { return contexts->note(), contexts->real.release(memory); };
  api.allocate_pinned = [](void** memory, std::size_t bytes, unsigned flags) {
    return contexts->note(), contexts->real.allocate_pinned(memory, bytes, flags);
  };
  api.release_pinned = [](void* memory) { return contexts->note(), contexts->real.release_pinned(memory); };
  api.register_host = [](void* memory, std::size_t bytes, unsigned flags) {
    return contexts->note(), contexts->real.register_host(memory, bytes, flags);
  };
  api.unregister_host = [](void* memory) { return contexts->note(), contexts->real.unregister_host(memory); };
  return api;
}

TEST_F(Memory, MakesNoContextOnADeviceThatHappensToBeCurrent) {
  Contexts noted{device_.api(), {}};
  contexts = &noted;
  const auto runtime = std::make_shared<const Runtime>(noting_contexts(noted.real));
  use_device(*runtime, 1);
  {
    const DeviceBuffer buffer(runtime, 0, 100);
    const PinnedBuffer pinned(runtime, 0, 100);
    std::vector<std::byte> pages(4096);
    const PageLock lock(runtime, 0, pages);
  }
  EXPECT_THAT(noted.devices, ::testing::ElementsAre(0, 0, 0, 0, 0));
  int current = 0;
  EXPECT_EQ(noted.real.get_device(&current), kSuccess);
  EXPECT_EQ(current, 1);
  contexts = nullptr;
}

TEST_F(Memory, CopiesThereAndBackInOrder) {
  const OwnStream stream(runtime_, 1);
  const DeviceBuffer one(runtime_, 1, 96);
  const DeviceBuffer two(runtime_, 1, 96);
  const PinnedBuffer in(runtime_, 1, 96);
  const PinnedBuffer out(runtime_, 1, 96);
  for (std::size_t i = 0; i < 96; ++i) in.data()[i] = static_cast<std::byte>(i);
  copy(*runtime_, one.data(), in.data().data(), 96, stream.view());
  fill_zero(*runtime_, one.data() + 10, 5, stream.view());
  copy(*runtime_, two.data(), one.data(), 96, stream.view());
  copy(*runtime_, out.data().data(), two.data(), 96, stream.view());
  while (!stream.idle()) {
  }
  device_.host_reads(out.data().data(), 96);
  for (std::size_t i = 0; i < 96; ++i) {
    EXPECT_EQ(out.data()[i], static_cast<std::byte>(i >= 10 && i < 15 ? 0 : i)) << i;
  }
}

}  // namespace
}  // namespace kolo::cuda

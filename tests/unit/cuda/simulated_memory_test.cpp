// Memory that is not there, not there any more, or not that large.
#include <cstring>
#include <optional>

#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

// What the owners throw for: the programs go on.
template <class F>
void whatever_is_thrown(F&& body) {
  try {
    body();
  } catch (const std::exception&) {
  }
}

void launch(Rig& rig, KernelBody body) {
  rig.device.add_kernel("blind", 1, std::move(body));
  const cuda::RuntimeApi& api = rig.runtime->api();
  cuda::LibraryHandle library = nullptr;
  cuda::KernelHandle kernel = nullptr;
  api.load_library(&library, "an image", nullptr, nullptr, 0, nullptr, nullptr, 0);
  ASSERT_EQ(api.get_kernel(&kernel, library, "blind"), cuda::kSuccess);
  char nothing = 0;
  void* arguments[] = {&nothing};
  ASSERT_EQ(api.launch(kernel, {}, {}, arguments, 0, rig.a.view().handle), cuda::kSuccess);
}

TEST(SimulatedMemory, ACopyOfWhatWasReleased) {
  expect_reported(Fault::bad_memory, [](Rig& rig, bool right) {
    std::optional<cuda::DeviceBuffer> memory(std::in_place, rig.runtime, 0, Rig::kBytes);
    const std::byte* const data = memory->data();
    if (!right) memory.reset();
    whatever_is_thrown([&] { rig.copy(rig.x.data(), data, rig.a.view()); });
    rig.device.drain();
  });
}

TEST(SimulatedMemory, ACopyOfWhatIsReleasedBeforeItRuns) {
  expect_reported(Fault::released_in_use, [](Rig& rig, bool right) {
    std::optional<cuda::DeviceBuffer> memory(std::in_place, rig.runtime, 0, Rig::kBytes);
    rig.copy(rig.x.data(), memory->data(), rig.a.view());
    rig.event.record(rig.a.view());
    if (right) rig.see(rig.event);
    memory.reset();
  });
}

TEST(SimulatedMemory, PinnedMemoryThatIsReleasedWhileACopyReadsIt) {
  expect_reported(Fault::released_in_use, [](Rig& rig, bool right) {
    std::optional<cuda::PinnedBuffer> memory(std::in_place, rig.runtime, 0, Rig::kBytes);
    rig.copy(rig.x.data(), memory->data().data(), rig.a.view());
    while (!right && rig.device.queued() != 0) rig.device.run_some();  // it has run, but who knows that?
    if (right) rig.runtime->check(rig.runtime->api().stream_synchronize(rig.a.view().handle), "synchronize");
    memory.reset();
  });
}

TEST(SimulatedMemory, ACollectiveOnMemoryThatIsReleasedMeanwhile) {
  expect_reported(Fault::released_in_use, [](Rig& rig, bool right) {
    std::optional<cuda::DeviceBuffer> memory(std::in_place, rig.runtime, 0, Rig::kBytes);
    rig.device.enqueue(rig.a.view().handle,
                       {.what = "collective", .ranges = {{memory->data(), Rig::kBytes, Access::write}}});
    if (right) rig.device.drain();
    memory.reset();
  });
}

TEST(SimulatedMemory, AKernelThatFindsReleasedMemoryInItsTable) {
  expect_reported(Fault::bad_memory, [](Rig& rig, bool right) {
    std::optional<cuda::DeviceBuffer> memory(std::in_place, rig.runtime, 0, Rig::kBytes);
    std::byte* const data = memory->data();
    if (!right) memory.reset();
    rig.device.add_kernel(
        "clear", 1, [data](const void*, unsigned, unsigned) { *data = std::byte{0}; },
        [data](const void*) {
          return std::vector<Range>{{data, 1, Access::write}};
        });
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    api.load_library(&library, "an image", nullptr, nullptr, 0, nullptr, nullptr, 0);
    ASSERT_EQ(api.get_kernel(&kernel, library, "clear"), cuda::kSuccess);
    char nothing = 0;
    void* arguments[] = {&nothing};
    ASSERT_EQ(api.launch(kernel, {}, {}, arguments, 0, rig.a.view().handle), cuda::kSuccess);
    rig.device.drain();
  });
}

TEST(SimulatedMemory, MemoryThatNoDeviceKnows) {
  expect_reported(Fault::bad_memory, [](Rig& rig, bool right) {
    const std::vector<std::byte> pageable(Rig::kBytes);
    const void* const from = right ? rig.pinned.data().data() : pageable.data();
    whatever_is_thrown([&] { rig.copy(rig.x.data(), from, rig.a.view()); });
  });
}

TEST(SimulatedMemory, MoreThanWasAllocated) {
  expect_reported(Fault::bad_memory, [](Rig& rig, bool right) {
    whatever_is_thrown([&] { rig.copy(rig.x.data(), rig.y.data(), rig.a.view(), Rig::kBytes + (right ? 0 : 1)); });
  });
}

TEST(SimulatedMemory, MemoryOfAnotherDevice) {
  expect_reported(Fault::bad_memory, [](Rig& rig, bool right) {
    const cuda::DeviceBuffer memory(rig.runtime, right ? 0 : 1, Rig::kBytes);
    rig.device.enqueue(rig.a.view().handle,
                       {.what = "collective", .ranges = {{memory.data(), Rig::kBytes, Access::write}}});
    rig.device.drain();
  });
}

TEST(SimulatedMemory, AKernelThatWritesBesideItsMemory) {
  for (const int beside : {0, 1}) {
    expect_reported(Fault::outside_memory, [beside](Rig& rig, bool right) {
      std::byte* const wrong = beside == 0 ? rig.x.data() - 1 : rig.x.data() + Rig::kBytes;
      std::byte* const to = right ? rig.x.data() : wrong;
      launch(rig, [to](const void*, unsigned, unsigned) { *to = std::byte{7}; });
    });
  }
}

TEST(SimulatedMemory, AKernelThatWritesIntoReleasedMemory) {
  expect_reported(Fault::outside_memory, [](Rig& rig, bool right) {
    std::optional<cuda::DeviceBuffer> memory(std::in_place, rig.runtime, 0, Rig::kBytes);
    std::byte* const to = memory->data();
    launch(rig, [to](const void*, unsigned, unsigned) { *to = std::byte{7}; });
    if (right) rig.device.drain();
    memory.reset();
  });
}

TEST(SimulatedMemory, MemoryThatIsReleasedTwiceOrInTheWrongWay) {
  for (const bool pinned : {false, true}) {
    expect_reported(Fault::bad_memory, [pinned](Rig& rig, bool right) {
      const cuda::RuntimeApi& api = rig.runtime->api();
      void* memory = nullptr;
      ASSERT_EQ(api.allocate(&memory, 10), cuda::kSuccess);
      const auto wrong = [&] { return pinned ? api.release_pinned(memory) : api.release(memory); };
      bool refused = !right && pinned && wrong() != cuda::kSuccess;
      EXPECT_EQ(api.release(memory), cuda::kSuccess);
      refused = refused || (!right && !pinned && wrong() != cuda::kSuccess);
      EXPECT_NE(refused, right);
    });
  }
}

TEST(SimulatedMemory, HoldsNothingThatLooksLikeData) {
  SimulatedDevice device;
  Rig rig(device);
  std::byte fresh{0};
  device.peek(&fresh, rig.x.data(), 1);
  EXPECT_EQ(fresh, std::byte{0xcd});
  // Nor does pinned memory into which a copy is on its way.
  std::memset(rig.pinned.data().data(), 1, Rig::kBytes);
  rig.fill(rig.x, rig.a.view());
  rig.copy(rig.pinned.data().data(), rig.x.data(), rig.a.view());
  EXPECT_EQ(rig.pinned.data()[0], std::byte{0xdb});
  device.drain();
  EXPECT_EQ(rig.pinned.data()[0], std::byte{0});
}

TEST(SimulatedMemory, EndsAsADevicesDoes) {
  SimulatedDevice device({.memory = 1000});
  const auto runtime = std::make_shared<const cuda::Runtime>(device.api());
  std::optional<cuda::DeviceBuffer> most(std::in_place, runtime, 0, 900);
  EXPECT_EQ(device.device_bytes(0), 900U);
  EXPECT_THROW(cuda::DeviceBuffer(runtime, 0, 101), BackendError);
  most.reset();
  EXPECT_EQ(device.device_bytes(0), 0U);
  EXPECT_NO_THROW(cuda::DeviceBuffer(runtime, 0, 101));
}

}  // namespace
}  // namespace kolo::test

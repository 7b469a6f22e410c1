// Calls that a device refuses, or takes and does something else.
#include <gtest/gtest-spi.h>

#include <stdexcept>
#include <thread>

#include "unit/cuda/device_programs.h"

namespace kolo::test {
namespace {

TEST(SimulatedCalls, AWaitForAnEventThatWasNeverRecorded) {
  expect_reported(Fault::unrecorded_event, [](Rig& rig, bool right) {
    if (right) rig.event.record(rig.a.view());
    rig.runtime->api().stream_wait_event(rig.b.view().handle, rig.event.handle(), 0);
  });
}

TEST(SimulatedCalls, AQuestionAboutAnEventThatWasNeverRecorded) {
  expect_reported(Fault::unrecorded_event, [](Rig& rig, bool right) {
    if (right) rig.event.record(rig.a.view());
    rig.runtime->api().event_query(rig.event.handle());
  });
}

TEST(SimulatedCalls, AnEventOfAnotherDevice) {
  expect_reported(Fault::wrong_device, [](Rig& rig, bool right) {
    const cuda::Event event(rig.runtime, right ? 0 : 1);
    rig.runtime->api().event_record(event.handle(), rig.a.view().handle);
  });
}

TEST(SimulatedCalls, AKernelInAStreamOfAnotherDevice) {
  expect_reported(Fault::wrong_device, [](Rig& rig, bool right) {
    rig.device.add_kernel("nothing", 1, [](const void*, unsigned, unsigned) {});
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    api.load_library(&library, "an image", nullptr, nullptr, 0, nullptr, nullptr, 0);
    ASSERT_EQ(api.get_kernel(&kernel, library, "nothing"), cuda::kSuccess);
    const cuda::DeviceGuard guard(*rig.runtime, right ? 0 : 1);
    char nothing = 0;
    void* arguments[] = {&nothing};
    api.launch(kernel, {}, {}, arguments, 0, rig.a.view().handle);
  });
}

TEST(SimulatedCalls, MemoryOfOneDeviceInTheDefaultStreamOfAnother) {
  expect_reported(Fault::wrong_device, [](Rig& rig, bool right) {
    const cuda::DeviceGuard guard(*rig.runtime, right ? 0 : 1);
    rig.runtime->api().fill(rig.x.data(), 0, Rig::kBytes, nullptr);
  });
}

TEST(SimulatedCalls, AStreamThatIsGone) {
  expect_reported(Fault::bad_handle, [](Rig& rig, bool right) {
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::StreamHandle stream = nullptr;
    ASSERT_EQ(api.stream_create(&stream, cuda::kStreamNonBlocking, 0), cuda::kSuccess);
    if (right) api.fill(rig.x.data(), 0, Rig::kBytes, stream);
    EXPECT_EQ(api.stream_destroy(stream), cuda::kSuccess);  // what is in it still runs
    if (!right) api.fill(rig.x.data(), 0, Rig::kBytes, stream);
    rig.device.drain();
    std::byte first{1};
    rig.device.peek(&first, rig.x.data(), 1);
    EXPECT_EQ(first, right ? std::byte{0} : std::byte{0xcd});
  });
}

TEST(SimulatedCalls, AnEventThatIsGone) {
  expect_reported(Fault::bad_handle, [](Rig& rig, bool right) {
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::EventHandle event = nullptr;
    ASSERT_EQ(api.event_create(&event, 0), cuda::kSuccess);
    ASSERT_EQ(api.event_record(event, rig.a.view().handle), cuda::kSuccess);
    if (!right) {
      EXPECT_EQ(api.event_destroy(event), cuda::kSuccess);
    }
    EXPECT_EQ(api.stream_wait_event(rig.b.view().handle, event, 0) == cuda::kSuccess, right);
    if (right) {
      EXPECT_EQ(api.event_destroy(event), cuda::kSuccess);  // waits that were enqueued hold
    }
  });
}

TEST(SimulatedCalls, ALaunchThatNoDeviceTakes) {
  expect_reported(Fault::bad_call, [](Rig& rig, bool right) {
    rig.device.add_kernel("nothing", 1, [](const void*, unsigned, unsigned) {});
    const cuda::RuntimeApi& api = rig.runtime->api();
    cuda::LibraryHandle library = nullptr;
    cuda::KernelHandle kernel = nullptr;
    api.load_library(&library, "an image", nullptr, nullptr, 0, nullptr, nullptr, 0);
    ASSERT_EQ(api.get_kernel(&kernel, library, "nothing"), cuda::kSuccess);
    char nothing = 0;
    void* arguments[] = {&nothing};
    api.launch(kernel, {}, {right ? 1024U : 1025U}, arguments, 0, rig.a.view().handle);
  });
}

TEST(SimulatedCalls, AKernelThatFails) {
  expect_reported(Fault::bad_call, [](Rig& rig, bool right) {
    rig.device.enqueue(rig.a.view().handle, {.what = "operation", .run = [right] {
                                               if (!right) throw std::logic_error("a misaligned address");
                                             }});
  });
}

TEST(SimulatedCalls, TheCurrentDeviceBelongsToTheThread) {
  SimulatedDevice device({.devices = 2});
  const cuda::RuntimeApi api = device.api();
  EXPECT_EQ(api.set_device(1), cuda::kSuccess);
  int other = -1;
  std::thread([&] { api.get_device(&other); }).join();
  int mine = -1;
  api.get_device(&mine);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(mine, 1);
  EXPECT_NE(api.set_device(2), cuda::kSuccess);
  EXPECT_NE(api.take_last_error(), cuda::kSuccess);
  EXPECT_EQ(api.take_last_error(), cuda::kSuccess);
}

TEST(SimulatedCalls, AViolationThatNobodyTakesFailsTheTest) {
  const auto wait_for_nothing = [] {
    SimulatedDevice device({.seed = 41});
    const Rig rig(device);
    rig.runtime->api().event_query(rig.event.handle());
  };
  EXPECT_NONFATAL_FAILURE(wait_for_nothing(), "simulated device, seed 41: unrecorded event: ");
}

TEST(SimulatedCalls, FailAsOftenAsTheTestWants) {
  SimulatedDevice device;
  const cuda::RuntimeApi api = device.api();
  device.fail("allocate", 2, 1);
  void* memory = nullptr;
  EXPECT_EQ(api.allocate(&memory, 8), 2);
  EXPECT_EQ(api.allocate(&memory, 8), cuda::kSuccess);
  EXPECT_EQ(device.calls("allocate"), 2);
  EXPECT_EQ(api.release(memory), cuda::kSuccess);
}

}  // namespace
}  // namespace kolo::test

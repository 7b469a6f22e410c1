#include "cuda/runtime.h"

#include <gmock/gmock.h>

#include <future>
#include <set>

#include "kolo/error.h"
#include "support/device/simulated_device.h"

namespace kolo::cuda {
namespace {

using test::SimulatedDevice;
using ::testing::HasSubstr;

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const BackendError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Runtime, WantsAWholeTable) {
  const SimulatedDevice device;
  RuntimeApi api = device.api();
  EXPECT_NO_THROW(const Runtime runtime(api));
  api.event_query = nullptr;
  EXPECT_EQ(text_of([&] { const Runtime runtime(api); }), "the CUDA runtime has no cudaEventQuery");
  api = device.api();
  api.launch = nullptr;  // the last one
  EXPECT_EQ(text_of([&] { const Runtime runtime(api); }), "the CUDA runtime has no cudaLaunchKernel");
}

TEST(Runtime, SaysVersionsAndDevices) {
  const SimulatedDevice device({.devices = 2});
  const Runtime runtime(device.api());
  EXPECT_EQ(runtime.device_count(), 2);
  EXPECT_EQ(runtime.describe(),
            "CUDA runtime 13.0, driver for CUDA 13.0, 2 devices: 0 at 0000:01:00.0, compute capability 9.0, 4 "
            "multiprocessors; 1 at 0000:02:00.0, compute capability 9.0, 4 multiprocessors");
}

TEST(Runtime, SaysWhyThereAreNone) {
  const SimulatedDevice device({.devices = 0});
  const Runtime runtime(device.api());
  EXPECT_EQ(runtime.device_count(), 0);
  EXPECT_EQ(runtime.describe(),
            "CUDA runtime 13.0, no driver, no devices: cudaErrorNoDevice (no CUDA-capable device is detected)");
  EXPECT_EQ(device.api().take_last_error(), kSuccess);  // nobody else finds it
}

TEST(Runtime, ErrorsNameTheCallAndAreNotLeftBehind) {
  SimulatedDevice device;
  const Runtime runtime(device.api());
  EXPECT_NO_THROW(runtime.check(kSuccess, "cudaFree"));
  const Status status = device.api().set_device(7);
  EXPECT_EQ(text_of([&] { runtime.check(status, "cudaSetDevice(7)"); }),
            "cudaSetDevice(7): cudaErrorInvalidDevice (invalid device ordinal)");
  EXPECT_EQ(device.api().take_last_error(), kSuccess);
}

// A rank's threads begin with device 0, which is another rank's.
TEST(DeviceGuard, LeavesADeviceAloneThatNobodyHasUsed) {
  SimulatedDevice device({.devices = 2});
  const Runtime runtime(device.api());
  const auto current_after_a_guard = [&] {
    { const DeviceGuard guard(runtime, 1); }
    int which = -1;
    runtime.check(device.api().get_device(&which), "cudaGetDevice");
    return which;
  };
  const auto in_a_new_thread = [](const auto& body) { return std::async(std::launch::async, body).get(); };
  EXPECT_EQ(in_a_new_thread(current_after_a_guard), 1);
  EXPECT_EQ(device.contexts(), std::set<int>{1});
  use_device(runtime, 0);  // somebody else does
  EXPECT_EQ(in_a_new_thread(current_after_a_guard), 0);
}

// As with a driver that does not say.
TEST(DeviceGuard, PutsBackWhatWasWhereNobodyKnows) {
  SimulatedDevice device({.devices = 2});
  RuntimeApi api = device.api();
  api.context_state = nullptr;
  const Runtime runtime(api);
  EXPECT_TRUE(runtime.has_context(0));
  { const DeviceGuard guard(runtime, 1); }
  EXPECT_EQ(device.contexts(), (std::set<int>{0, 1}));
}

TEST(DeviceGuard, PutsBackWhatWas) {
  SimulatedDevice device({.devices = 3});
  const Runtime runtime(device.api());
  const auto current = [&] {
    int which = -1;
    runtime.check(device.api().get_device(&which), "cudaGetDevice");
    return which;
  };
  use_device(runtime, 1);
  {
    const DeviceGuard guard(runtime, 2);
    EXPECT_EQ(current(), 2);
    EXPECT_THROW(DeviceGuard(runtime, 3), BackendError);
    EXPECT_EQ(current(), 2);
  }
  EXPECT_EQ(current(), 1);
  const int calls = device.calls("set_device");
  { const DeviceGuard guard(runtime, 1); }
  EXPECT_EQ(device.calls("set_device"), calls);  // nothing to do
}

}  // namespace
}  // namespace kolo::cuda

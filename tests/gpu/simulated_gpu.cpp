// Stands in for gpu.cpp: the tests for a GPU on the simulated device, so that what carries them is itself tested.
#include <gtest/gtest.h>

#include "gpu/gpu.h"
#include "support/device/kolo_kernels.h"
#include "support/device/simulated_device.h"

namespace kolo::test {
namespace {

SimulatedDevice& device() {
  static SimulatedDevice only;
  return only;
}

class NoViolations final : public testing::Environment {
 public:
  void TearDown() override {
    device().drain();
    for (const Violation& violation : device().take_violations()) ADD_FAILURE() << violation.text;
    EXPECT_GT(device().launches("kolo_pack"), 500);
  }
};

[[maybe_unused]] const auto* const kWatched = testing::AddGlobalTestEnvironment(new NoViolations);

}  // namespace

const cuda::RuntimePtr& gpu_runtime() {
  static const cuda::RuntimePtr runtime = [] {
    add_kolo_kernels(device());
    return std::make_shared<const cuda::Runtime>(device().api());
  }();
  return runtime;
}

// The simulated device has the kernels' host bodies, whether this build has device code or not.
const void* gpu_image() { return "stands for device code"; }

std::string why_no_gpu() { return {}; }

}  // namespace kolo::test

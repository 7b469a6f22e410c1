#include "gpu/gpu.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/device_image.h"
#include "kolo/error.h"

namespace kolo::test {
namespace {

// A missing GPU is a failure, never a skip: whoever starts these programs has asked for one.
class RequireGpu final : public testing::Environment {
 public:
  void SetUp() override {
    const std::string why = why_no_gpu();
    if (!why.empty()) FAIL() << "no GPU to test on: " << why;
    std::printf("%s\n", gpu_runtime()->describe().c_str());
  }
};

[[maybe_unused]] const auto* const kRequired = testing::AddGlobalTestEnvironment(new RequireGpu);

}  // namespace

const cuda::RuntimePtr& gpu_runtime() {
  static const cuda::RuntimePtr runtime = cuda::load_runtime();
  return runtime;
}

const void* gpu_image() { return kernels::device_image(); }

std::string why_no_gpu() {
  try {
    if (kernels::device_image() == nullptr) return "this kolo was built without device code (no nvcc was found)";
    if (gpu_runtime()->device_count() == 0) return gpu_runtime()->describe();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace kolo::test

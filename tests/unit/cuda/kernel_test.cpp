#include "cuda/kernel.h"

#include <gmock/gmock.h>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "kolo/error.h"
#include "support/device/simulated_device.h"
#include "support/thread_ranks.h"

namespace kolo::cuda {
namespace {

using test::Access;
using test::Range;
using test::SimulatedDevice;
using ::testing::HasSubstr;

constexpr char kImage[] = "what a compiler made";

struct SetArguments {
  int* to;
  int value;
};

class Kernels : public ::testing::Test {
 protected:
  Kernels() {
    device_.add_kernel(
        "set", sizeof(SetArguments),
        [](const void* given, unsigned blocks, unsigned threads) {
          const auto& arguments = *static_cast<const SetArguments*>(given);
          *arguments.to = arguments.value + static_cast<int>(1000 * blocks + threads);
        },
        [](const void* given) {
          return std::vector<Range>{{static_cast<const SetArguments*>(given)->to, sizeof(int), Access::write}};
        });
  }

  SimulatedDevice device_{{.devices = 2}};
  RuntimePtr runtime_ = std::make_shared<const Runtime>(device_.api());
};

TEST_F(Kernels, RunInTheirStreamWithTheArgumentsOfTheLaunch) {
  KernelImage image(runtime_, kImage);
  const OwnStream stream(runtime_, 1);
  const DeviceBuffer memory(runtime_, 1, sizeof(int));
  auto* const value = reinterpret_cast<int*>(memory.data());
  use_device(*runtime_, 0);  // the stream says where
  {
    SetArguments arguments{value, 7};
    image.launch({"set", 3, 64}, arguments, stream.view());
    arguments.value = 8;  // too late
  }
  device_.drain();
  int found = 0;
  device_.peek(&found, value, sizeof found);
  EXPECT_EQ(found, 3071);
  EXPECT_EQ(device_.launches("set"), 1);
  EXPECT_EQ(&image.runtime(), runtime_.get());
}

TEST_F(Kernels, AnImageIsLoadedOnceAndEveryNameLookedUpOnce) {
  {
    KernelImage image(runtime_, kImage);
    EXPECT_EQ(device_.calls("load_library"), 0);  // not before it is needed
    test::run_ranks(4, [&](int rank) {
      const OwnStream stream(runtime_, rank % 2);
      const DeviceBuffer memory(runtime_, rank % 2, sizeof(int));
      auto* const value = reinterpret_cast<int*>(memory.data());
      for (int i = 0; i < 5; ++i) image.launch({.kernel = "set"}, SetArguments{value, i}, stream.view());
      while (!stream.idle()) {
      }
      int found = 0;
      device_.peek(&found, value, sizeof found);
      EXPECT_EQ(found, 1005);
    });
    EXPECT_EQ(device_.calls("load_library"), 1);
    EXPECT_EQ(device_.calls("get_kernel"), 1);
    device_.add_kernel("nothing", 1, [](const void*, unsigned, unsigned) {});
    image.launch({.kernel = "nothing"}, SetArguments{}, {nullptr, 0});
    EXPECT_EQ(device_.calls("load_library"), 1);
    EXPECT_EQ(device_.calls("get_kernel"), 2);
    EXPECT_EQ(device_.calls("unload_library"), 0);
  }
  EXPECT_EQ(device_.calls("unload_library"), 1);
}

TEST_F(Kernels, ABuildWithoutDeviceCodeSaysSo) {
  KernelImage image(runtime_, nullptr);
  try {
    image.launch({.kernel = "set"}, SetArguments{}, {nullptr, 0});
    ADD_FAILURE() << "there is nothing to launch";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("this build of kolo has no device code"));
    EXPECT_THAT(error.what(), HasSubstr("set"));
  }
  EXPECT_EQ(device_.calls("load_library"), 0);
}

TEST_F(Kernels, FailuresNameTheKernel) {
  KernelImage image(runtime_, kImage);
  const auto text_of = [&](std::string_view name) -> std::string {
    try {
      image.launch({.kernel = name}, SetArguments{}, {nullptr, 0});
    } catch (const BackendError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(text_of("other"), "cudaLibraryGetKernel of other: cudaErrorSymbolNotFound (named symbol not found)");
  device_.fail("launch", 700);
  EXPECT_THAT(text_of("set"), HasSubstr("cudaLaunchKernel of set: "));
  device_.fail("load_library", 200);
  KernelImage broken(runtime_, kImage);
  EXPECT_THROW(broken.launch({.kernel = "set"}, SetArguments{}, {nullptr, 0}), BackendError);
  EXPECT_EQ(device_.api().take_last_error(), kSuccess);
}

}  // namespace
}  // namespace kolo::cuda

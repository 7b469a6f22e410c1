#include "cuda/load_runtime.h"

#include <gmock/gmock.h>

#include "kolo/error.h"
#include "support/built_file.h"

namespace kolo::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const RuntimeSearch& search) {
  try {
    static_cast<void>(load_runtime(search));
  } catch (const BackendError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(LoadRuntime, SaysWhereItHasLooked) {
  EXPECT_EQ(text_of({{"libkolo_no_such.so.1", "libkolo_no_such.so.2"}, {"/nowhere"}}),
            "cannot load the CUDA runtime; tried libkolo_no_such.so.1, libkolo_no_such.so.2 among loaded libraries, in "
            "/nowhere, and in the system's library path. Set LD_LIBRARY_PATH or install nvidia-cuda-runtime");
}

TEST(LoadRuntime, SaysWhatIsWrongWithWhatItHasFound) {
  const std::filesystem::path folder = test::built_file(KOLO_TEST_RUNTIMES);
  const std::string text = text_of({{"kolo_old_runtime.so", "kolo_incomplete_runtime.so"}, {folder}});
  EXPECT_THAT(text,
              HasSubstr((folder / "kolo_old_runtime.so").string() + " is CUDA runtime 12.4; kolo needs 12.8 or newer"));
  EXPECT_THAT(text, HasSubstr((folder / "kolo_incomplete_runtime.so").string() +
                              ": the CUDA runtime has no cudaDriverGetVersion"));
  // A library that is no CUDA runtime at all.
  EXPECT_THAT(text_of({{"libm.so.6"}, {}}),
              AllOf(HasSubstr("cannot read the version of the CUDA runtime "), HasSubstr("libm.so.6")));
}

TEST(LoadRuntime, TakesWhatIsThereWithOrWithoutADevice) {
  RuntimePtr runtime;
  try {
    runtime = load_runtime();
  } catch (const BackendError& error) {
    GTEST_SKIP() << "there is no CUDA runtime here: " << error.what();
  }
  const std::string text = runtime->describe();
  EXPECT_THAT(text, HasSubstr("CUDA runtime 1"));
  if (runtime->device_count() == 0) {
    EXPECT_THAT(text, HasSubstr("no devices: cudaError"));
    // Its own words for its own numbers: the table leads to the right functions.
    EXPECT_STREQ(runtime->api().error_name(kNotReady), "cudaErrorNotReady");
    EXPECT_THROW(DeviceGuard(*runtime, 0), BackendError);
  } else {
    EXPECT_THAT(text, HasSubstr("compute capability"));
    EXPECT_NO_THROW(DeviceGuard(*runtime, 0));
  }
}

}  // namespace
}  // namespace kolo::cuda

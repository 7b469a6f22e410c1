#include "kernels/try_out.h"

#include <gmock/gmock.h>

#include "kolo/error.h"
#include "unit/kernels/launch_fixture.h"

namespace kolo::kernels::test {
namespace {

constexpr cuda::Status kNoKernelImage = 209;
constexpr std::chrono::seconds kTimeout(20);

using TryOut = Launch;

TEST_F(TryOut, RunsAKernelToItsEnd) {
  const int streams = device.calls("stream_create");
  try_out(runtime, image, 1, kTimeout);
  EXPECT_EQ(device.launches("kolo_scale"), 1);
  EXPECT_EQ(device.queued(), 0U);
  EXPECT_EQ(device.calls("stream_create"), streams);
}

TEST_F(TryOut, ADeviceThatTheCodeIsNotForIsNamedWithWhatItIsFor) {
  device.fail("launch", kNoKernelImage);
  try {
    try_out(runtime, image, 1, kTimeout);
    FAIL() << "no error";
  } catch (const BackendError& error) {
    for (const char* wanted : {"do not run on device 1", "cudaLaunchKernel", "compiled for sm_", "and newer"}) {
      EXPECT_THAT(error.what(), testing::HasSubstr(wanted));
    }
  }
}

TEST_F(TryOut, ADeviceThatDoesNotComeToItIsAnError) {
  device.fail("event_query", cuda::kNotReady, -1);
  EXPECT_THROW(try_out(runtime, image, 0, std::chrono::milliseconds(20)), BackendError);
}

TEST_F(TryOut, ABuildWithoutDeviceCodeSaysSo) {
  cuda::KernelImage none(runtime, nullptr);
  EXPECT_THROW(try_out(runtime, none, 0, kTimeout), UsageError);
}

}  // namespace
}  // namespace kolo::kernels::test

#include "kernels/device_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/device_kernels.h"
#include "kernels/scale_element.h"

namespace kolo::kernels {
namespace {

TEST(DeviceRun, TheWiderTypeFillsSixteenBytes) {
  EXPECT_EQ((RunShape<F32, F32>::kLanes), 4u);
  EXPECT_EQ((RunShape<F32, BF16>::kLanes), 4u);
  EXPECT_EQ((RunShape<F16, F16>::kLanes), 8u);
  EXPECT_EQ((RunShape<F64, F16>::kLanes), 2u);
  EXPECT_EQ((RunShape<Plain<std::uint8_t>, Plain<std::uint8_t>>::kLanes), 16u);
  EXPECT_EQ((RunShape<F32, F32>::kAhead * sizeof(RunShape<F32, F32>::InPack)), 64u);
}

// What would be a fault on a device is one on the host.
TEST(DeviceRun, MisalignedAccessesAreFound) {
  alignas(64) std::byte memory[256] = {};
  const CopyElement<F32> as_it_is;
  EXPECT_NO_THROW((transform_packs<F32, F32>(memory, memory + 64, 4, as_it_is, {0, 1})));
  EXPECT_THROW((transform_packs<F32, F32>(memory + 4, memory + 64, 4, as_it_is, {0, 1})), std::logic_error);
  EXPECT_THROW((transform_packs<F32, F32>(memory, memory + 72, 4, as_it_is, {0, 1})), std::logic_error);
  EXPECT_THROW((transform_singly<true, F32, F32>(memory + 2, memory + 64, 4, as_it_is, {0, 1})), std::logic_error);
  EXPECT_NO_THROW((transform_singly<false, F32, F32>(memory + 2, memory + 65, 4, as_it_is, {0, 1})));
}

// Each element by exactly one of the threads, whatever their number.
TEST(DeviceRun, ThreadsShareARun) {
  for (const std::size_t threads : {1, 2, 31, 32, 100}) {
    for (const std::size_t count : {0, 1, 5, 64, 1000, 4099}) {
      alignas(16) std::vector<std::uint32_t> values(count + 8, 0);
      std::byte* data = reinterpret_cast<std::byte*>(values.data() + 1);
      const auto add_one = [](std::uint32_t value) { return value + 1; };
      using E = Plain<std::uint32_t>;
      for (std::size_t i = 0; i < threads; ++i) transform_run<E, E>(data, data, count, add_one, {i, threads});
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], i >= 1 && i < count + 1 ? 1u : 0u) << threads << " threads, element " << i;
      }
    }
  }
}

TEST(DeviceRun, ZeroesAtAnyAddress) {
  for (const std::size_t at : {0, 1, 2, 15, 16}) {
    for (const std::size_t count : {0, 1, 7, 33, 500}) {
      std::vector<std::byte> memory(2048, std::byte{1});
      for (std::size_t i = 0; i < 32; ++i) zero_run<F16>(memory.data() + at, count, {i, 32});
      for (std::size_t i = 0; i < memory.size(); ++i) {
        ASSERT_EQ(memory[i], std::byte{i >= at && i < at + 2 * count ? std::uint8_t{0} : std::uint8_t{1}}) << i;
      }
    }
  }
}

TEST(DeviceKernels, HaveNamesOfTheirOwnAndSmallArguments) {
  std::vector<std::string_view> names;
  for (const DeviceKernel& kernel : device_kernels()) {
    EXPECT_TRUE(kernel.name.starts_with("kolo_")) << kernel.name;
    EXPECT_EQ(std::count(names.begin(), names.end(), kernel.name), 0) << kernel.name;
    EXPECT_LE(kernel.argument_bytes, 4096u);
    names.push_back(kernel.name);
  }
  EXPECT_GE(names.size(), 2u);
}

}  // namespace
}  // namespace kolo::kernels

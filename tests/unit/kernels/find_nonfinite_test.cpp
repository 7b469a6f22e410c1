#include <gtest/gtest.h>

#include "kernels/find_nonfinite_arguments.h"
#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr Grid kGrids[] = {{1, 1}, {2, 32}, {3, 256}};
constexpr std::uint32_t kBefore = 4;  // what was in the flag stays

double largest(DType dtype) {
  if (dtype == DType::f64) return std::numeric_limits<double>::max();
  if (dtype == DType::f16) return 65504;
  return dtype == DType::bf16 ? base::bf16_to_f32(0x7f7f) : std::numeric_limits<float>::max();
}

std::uint32_t flag_of(const std::byte* data, std::size_t count, DType dtype, const Grid& grid) {
  KernelValue<std::uint32_t> flag(kBefore);
  run_kernel("kolo_find_nonfinite", FindNonfiniteArguments{data, count, flag.get(), dtype}, grid);
  return *flag;
}

TEST(FindNonfinite, FiniteValuesLeaveTheFlagAsItIs) {
  for (const DType dtype : kFloats) {
    for (const std::size_t count : {0, 1, 100, 1000}) {
      Guarded memory(count * size_of(dtype), size_of(dtype));
      for (std::size_t i = 0; i < count; ++i) {
        const double values[] = {0.0, -0.0, largest(dtype), -largest(dtype), dtype == DType::f16 ? 0x1p-24 : 0x1p-130};
        store_float(memory.data() + i * size_of(dtype), dtype, values[i % 5]);
      }
      for (const Grid& grid : kGrids) {
        EXPECT_EQ(flag_of(memory.data(), count, dtype, grid), kBefore) << name_of(dtype) << ' ' << count;
      }
    }
  }
}

TEST(FindNonfinite, OneElementAnywhereIsFound) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double bad[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  for (const DType dtype : kFloats) {
    const std::size_t size = size_of(dtype);
    for (const std::size_t count : {1, 2, 9, 77, 300}) {
      for (const std::size_t at : {std::size_t{0}, size, std::size_t{1}, std::size_t{8}}) {
        Guarded memory(count * size, at);
        for (std::size_t i = 0; i < count; ++i) store_float(memory.data() + i * size, dtype, 1.5);
        for (std::size_t i = 0; i < count; ++i) {
          store_float(memory.data() + i * size, dtype, bad[i % 3]);
          ASSERT_EQ(flag_of(memory.data(), count, dtype, kGrids[i % 3]), kBefore | 1u)
              << name_of(dtype) << " count " << count << " at " << at << " element " << i;
          store_float(memory.data() + i * size, dtype, 1.5);
        }
      }
    }
  }
}

// What lies beside the run is nobody's business.
TEST(FindNonfinite, LooksAtNothingElse) {
  std::pmr::vector<float> values(66, std::numeric_limits<float>::infinity());
  for (std::size_t i = 1; i < 65; ++i) values[i] = 1;
  const auto* run = reinterpret_cast<const std::byte*>(values.data() + 1);
  for (const Grid& grid : kGrids) EXPECT_EQ(flag_of(run, 64, DType::f32, grid), kBefore);
}

}  // namespace
}  // namespace kolo::kernels::test

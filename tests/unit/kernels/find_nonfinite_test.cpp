#include <gtest/gtest.h>

#include "kernels/find_nonfinite_arguments.h"
#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

constexpr Grid kGrids[] = {{1, 1}, {2, 32}, {3, 256}};
constexpr float kBefore = 0.25F;  // what was in the flag stays
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

float flag_of(const std::vector<Guarded*>& tensors, const std::vector<std::size_t>& counts, const Grid& grid) {
  KernelValue<float> flag(kBefore);
  std::vector<std::byte*> addresses;
  std::vector<TensorPlace> places;
  for (Guarded* tensor : tensors) addresses.push_back(tensor != nullptr ? tensor->data() : nullptr);
  for (const std::size_t count : counts) places.push_back({0, count});
  const HostTable table(places, addresses, 64);
  run_kernel("kolo_find_nonfinite", FindNonfiniteArguments{table.view(), flag.get()}, grid);
  return *flag;
}

void fill(Guarded& memory, std::size_t count) {
  const float values[] = {0.0F, -0.0F, kLargest, -kLargest, 0x1p-130F};
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<float*>(memory.data())[i] = values[i % 5];
}

TEST(FindNonfinite, FiniteValuesLeaveTheFlagAsItIs) {
  for (const std::size_t count : {0, 1, 100, 1000}) {
    Guarded one(count * sizeof(float), 4), other(7 * sizeof(float), 0);
    fill(one, count);
    fill(other, 7);
    for (const Grid& grid : kGrids) EXPECT_EQ(flag_of({&one, nullptr, &other}, {count, 5, 7}, grid), kBefore) << count;
  }
}

TEST(FindNonfinite, OneElementAnywhereIsFound) {
  const float bad[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  for (const std::size_t count : {1, 2, 9, 77, 300}) {
    for (const std::size_t at : {0, 4, 8, 12}) {
      Guarded one(3 * sizeof(float), 0), memory(count * sizeof(float), at);
      fill(one, 3);
      fill(memory, count);
      auto* values = reinterpret_cast<float*>(memory.data());
      for (std::size_t i = 0; i < count; ++i) {
        const float before = std::exchange(values[i], bad[i % 3]);
        ASSERT_EQ(flag_of({&one, &memory}, {3, count}, kGrids[i % 3]), 1.0F)
            << "count " << count << " at " << at << " element " << i;
        values[i] = before;
      }
    }
  }
}

// What lies beside the tensors is nobody's business, and what is no gradient of this step.
TEST(FindNonfinite, LooksAtNothingElse) {
  std::pmr::vector<float> values(66, kInfinity);
  for (std::size_t i = 1; i < 65; ++i) values[i] = 1;
  const HostTable table({{0, 64}, {0, 9}}, {reinterpret_cast<std::byte*>(values.data() + 1), nullptr}, 16);
  for (const Grid& grid : kGrids) {
    KernelValue<float> flag(kBefore);
    run_kernel("kolo_find_nonfinite", FindNonfiniteArguments{table.view(), flag.get()}, grid);
    EXPECT_EQ(*flag, kBefore);
  }
}

}  // namespace
}  // namespace kolo::kernels::test

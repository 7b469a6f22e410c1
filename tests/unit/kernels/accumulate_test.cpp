#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "kernels/accumulate_arguments.h"
#include "kernels/reduce.h"
#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

// What the host's sum of the two is.
std::vector<std::byte> sum_of(const std::byte* a, const std::byte* b, std::size_t count, DType dtype) {
  std::vector<std::byte> result(count * size_of(dtype));
  const std::array inputs{a, b};
  std::byte* const out = result.data();
  ReduceArguments arguments;
  arguments.inputs = inputs;
  arguments.outputs = {&out, 1};
  arguments.count = count;
  arguments.dtype = dtype;
  reduce(arguments);
  return result;
}

struct Places {
  std::size_t sum, addend;  // bytes behind a line
};

void check(DType dtype, std::size_t count, const Places& at, const Grid& grid) {
  const std::size_t size = size_of(dtype);
  std::mt19937_64 random(count + at.sum + 7 * at.addend);
  Guarded sum(count * size, at.sum), addend(count * size, at.addend);
  fill(sum.data(), count, dtype, random);
  fill(addend.data(), count, dtype, random);
  const std::vector<std::byte> before(addend.data(), addend.data() + count * size);
  const auto expected = sum_of(sum.data(), addend.data(), count, dtype);
  run_kernel("kolo_accumulate", AccumulateArguments{sum.data(), addend.data(), count, dtype}, grid);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same(sum.data() + i * size, expected.data() + i * size, dtype))
        << name_of(dtype) << " count " << count << " at " << at.sum << ", " << at.addend << " element " << i;
  }
  ASSERT_TRUE(sum.intact() && addend.intact()) << name_of(dtype) << " count " << count;
  ASSERT_TRUE(before.empty() || std::memcmp(before.data(), addend.data(), before.size()) == 0);
}

TEST(Accumulate, HasTheHostsSumsAtOddSizesAndPlacesByAnyGrid) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const std::size_t size = size_of(dtype);
    for (const std::size_t count : {0, 1, 3, 7, 16, 33, 500, 4099}) {
      for (const Places& at : {Places{0, 0}, Places{size, size}, Places{size, 0}, Places{1, 0}, Places{0, 56}}) {
        for (const Grid& grid : {Grid{1, 1}, Grid{2, 32}, Grid{3, 256}}) check(dtype, count, at, grid);
      }
    }
  }
}

}  // namespace
}  // namespace kolo::kernels::test

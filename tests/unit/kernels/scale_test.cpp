#include <gtest/gtest.h>

#include <cstring>

#include "kernels/scale_arguments.h"
#include "unit/kernels/guarded.h"
#include "unit/kernels/host_table.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

TEST(Scale, EveryFloatAtOddSizesAndPlacesByAnyGrid) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const std::size_t size = size_of(dtype);
    for (const std::size_t count : {0, 1, 3, 7, 16, 33, 500, 4099}) {
      for (const std::size_t at : {std::size_t{0}, size, std::size_t{1}, std::size_t{56}}) {
        for (const double factor : {0.5, 1.0 / 3, 1e30}) {
          for (const Grid& grid : {Grid{1, 1}, Grid{2, 32}, Grid{3, 256}}) {
            std::mt19937_64 random(count + at);
            Guarded memory(count * size, at);
            fill(memory.data(), count, dtype, random);
            std::vector<std::byte> expected(count * size);
            for (std::size_t i = 0; i < count; ++i) {
              scale_reference(memory.data() + i * size, dtype, expected.data() + i * size, dtype, factor);
            }
            run_kernel("kolo_scale", ScaleArguments{memory.data(), count, factor, dtype}, grid);
            for (std::size_t i = 0; i < count; ++i) {
              ASSERT_TRUE(same(memory.data() + i * size, expected.data() + i * size, dtype))
                  << name_of(dtype) << " count " << count << " at " << at << " factor " << factor << " element " << i;
            }
            ASSERT_TRUE(memory.intact()) << name_of(dtype) << " count " << count << " at " << at;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kolo::kernels::test

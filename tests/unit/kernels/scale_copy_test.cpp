#include "kernels/scale_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kolo/error.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

class ScaleCopy : public testing::TestWithParam<const HostKernels*> {
 protected:
  // `in_at` and `out_at`: bytes behind a line.
  static void check(DType in_type, DType out_type, std::size_t count, std::size_t in_at, std::size_t out_at,
                    double scale, bool streaming) {
    alignas(64) static std::byte in[16384], out[16384], expected[16384];
    std::mt19937_64 random(count + in_at);
    fill(in + in_at, count, in_type, random);
    const std::size_t in_size = size_of(in_type), out_size = size_of(out_type);
    const std::size_t around = std::min(sizeof(out), out_at + count * out_size + 256);
    std::memset(out, 0xa5, around);
    std::memset(expected, 0xa5, around);
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* to = expected + out_at + i * out_size;
      if (scale == 1.0 && in_type == out_type) {
        std::memcpy(to, in + in_at + i * in_size, in_size);
      } else {
        scale_reference(in + in_at + i * in_size, in_type, to, out_type, scale);
      }
    }
    GetParam()->scale_copy({in + in_at, out + out_at, in_type, out_type, count, in_size, scale, streaming});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = out_at + i * out_size;
      ASSERT_TRUE(same(out + at, expected + at, out_type))
          << GetParam()->name << ' ' << name_of(in_type) << " to " << name_of(out_type) << " count " << count
          << " from " << in_at << " to " << out_at << " scale " << scale << " streaming " << streaming << " element "
          << i;
    }
    const auto untouched = [](std::byte cell) { return cell == std::byte{0xa5}; };
    ASSERT_TRUE(std::all_of(out, out + out_at, untouched)) << "before the first";
    ASSERT_TRUE(std::all_of(out + out_at + count * out_size, out + around, untouched)) << "behind the last";
  }
};
INSTANTIATE_TEST_SUITE_P(Each, ScaleCopy, testing::ValuesIn(usable_kernels()),
                         [](const auto& suite) { return std::string(suite.param->name); });

TEST_P(ScaleCopy, EveryPairOfFloatsAtOddSizesAndPlaces) {
  for (const DType in_type : kFloats) {
    for (const DType out_type : kFloats) {
      for (const std::size_t count : {0, 1, 3, 31, 32, 33, 64, 97, 1000}) {
        for (const std::size_t at : {std::size_t{0}, size_of(out_type), std::size_t{1}, std::size_t{56}}) {
          for (const double scale : {1.0, 0.25, 1.0 / 3}) {
            for (const bool streaming : {false, true}) {
              check(in_type, out_type, count, 64 - at, at, scale, streaming);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST_P(ScaleCopy, OtherTypesAsTheyAre) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64, DType::boolean}) {
    for (const std::size_t count : {0, 1, 255, 256, 257, 1999}) {
      for (const std::size_t at : {0, 1, 8, 63}) {
        for (const bool streaming : {false, true}) {
          check(dtype, dtype, count, 3, at, 1.0, streaming);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ScaleCopy, RoundsEveryFloatToSixteenBitsAsTheScalarFunctionsDo) {
  // All exponents and signs, mantissas around every rounding boundary of both types.
  std::vector<float> in;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      in.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  std::vector<std::uint16_t> out(in.size());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    GetParam()->scale_copy({reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()),
                            DType::f32, dtype, in.size(), 4, 1.0, false});
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::uint16_t expected = dtype == DType::f16 ? base::f32_to_f16(in[i]) : base::f32_to_bf16(in[i]);
      ASSERT_EQ(out[i], expected) << name_of(dtype) << " of bits " << std::hex << std::bit_cast<std::uint32_t>(in[i]);
    }
  }
}

TEST_P(ScaleCopy, ScalesInPlace) {
  std::vector<float> values(1001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  auto* bytes = reinterpret_cast<std::byte*>(values.data());
  for (const bool streaming : {false, true}) {
    GetParam()->scale_copy({bytes, bytes, DType::f32, DType::f32, values.size(), 4, 0.5, streaming});
  }
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i) * 0.25f);
}

TEST(ScaleCopyArguments, AreChecked) {
  std::byte cell[8] = {};
  EXPECT_THROW(scale_copy(cell, DType::i32, cell, DType::f32, 1, 1.0), UsageError);
  EXPECT_THROW(scale_copy(cell, DType::i32, cell, DType::i32, 1, 2.0), UsageError);
  EXPECT_NO_THROW(scale_copy(cell, DType::i32, cell, DType::i32, 1, 1.0));
  EXPECT_NO_THROW(scale_copy(nullptr, DType::f32, nullptr, DType::f16, 0, 1.0));
}

}  // namespace
}  // namespace kolo::kernels::test

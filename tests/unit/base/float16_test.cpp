#include "base/float16.h"

#include <gtest/gtest.h>

#include <bit>

#include <cmath>
#include <limits>

namespace kolo::base {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Float16, EveryF16IsItsMathematicalValueAndComesBack) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    const float value = f16_to_f32(bits);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0) << bits;
      if (mantissa == 0) {
        EXPECT_EQ(std::abs(value), kInfinity);
      }
      EXPECT_EQ(f32_to_f16(value), mantissa == 0 ? bits : bits | 0x200) << bits;
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(std::abs(value), magnitude) << bits;
    EXPECT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    EXPECT_EQ(f32_to_f16(value), bits);
  }
}

TEST(Float16, F16RoundsToNearestEven) {
  // Between each two neighbours: the middle goes to the even one, the floats beside the middle to the nearer one.
  for (std::uint32_t i = 0; i < 0x7bff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float low = f16_to_f32(bits), high = f16_to_f32(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact in fp32
    EXPECT_EQ(f32_to_f16(middle), bits + (bits & 1)) << bits;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, kInfinity)), bits + 1) << bits;
    EXPECT_EQ(f32_to_f16(-middle), (bits + (bits & 1)) | 0x8000) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(1e30f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-kInfinity), 0xfc00);
  EXPECT_EQ(f32_to_f16(1e-30f), 0);
}

TEST(Float16, EveryBF16ComesBackAndMiddlesGoToEven) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = bf16_to_f32(bits);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), i << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << bits;
      continue;
    }
    EXPECT_EQ(f32_to_bf16(value), bits);
    if (std::isinf(value)) continue;
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(i << 16 | 0x7fff)), bits) << bits;
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(i << 16 | 0x8000)), bits + (bits & 1)) << bits;
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(i << 16 | 0x8001)), bits + 1) << bits;
  }
}

TEST(Float16, NaNStaysNaN) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffffffffu, 0xff800001u, 0x7f80ffffu}) {
    const auto value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << bits;
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
  }
}

}  // namespace
}  // namespace kolo::base

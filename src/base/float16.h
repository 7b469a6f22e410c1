#pragma once
// 16-bit floats as bits, to and from fp32: round to nearest even, NaN stays NaN, subnormals are kept. Plain C++, bit
// for bit what the vector instructions in kernels/ do. Always inlined and without std::bit_cast, so that a
// file compiled for one processor never lends its copy of a function to another.
#include <cstdint>

#include "base/host_device.h"

namespace kolo::base {

[[nodiscard, gnu::always_inline]] KOLO_HOST_DEVICE inline float bf16_to_f32(std::uint16_t bits) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard, gnu::always_inline]] KOLO_HOST_DEVICE inline std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

[[nodiscard, gnu::always_inline]] KOLO_HOST_DEVICE inline float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) {  // infinity, or a NaN made quiet
    return __builtin_bit_cast(float, sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, magnitude));
  }
  return __builtin_bit_cast(float, sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

[[nodiscard, gnu::always_inline]] KOLO_HOST_DEVICE inline std::uint16_t f32_to_f16(float value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above: infinity
  if (magnitude <
      0x38800000u) {  // below 2^-14: a multiple of 2^-24; adding 0.5 rounds it in fp32 (ulp of 0.5 is 2^-24)
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace kolo::base

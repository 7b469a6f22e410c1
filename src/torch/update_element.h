#pragma once
// How the loops of optimizer steps store elements, and how they compute with elements of 16 bits.
//
// 16-bit elements are computed in fp32, block by block. Each stored value is rounded once, to
// nearest even; intermediate values are not rounded to 16 bits. Every NaN is stored as one quiet
// NaN: which of two NaNs an addition returns depends on the compiler's vector code.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/float16.h"
#include "torch/update_loops.h"

// One copy of each loop per vector width, chosen when the library is loaded. Sanitizers run before that choice works.
// Tests define it as nothing and compile the loops for one width.
#if defined(KOLO_VECTOR_CLONES)
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KOLO_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KOLO_VECTOR_CLONES
#endif

namespace kolo {

template <class T>
[[gnu::always_inline]] inline T with_one_nan(T value) {
  return value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

// The numbers of base/float16.h, NaN apart, in a form without branches and with few operations for each vector.
struct HalfElement {
  [[gnu::always_inline]] static float load(std::uint16_t stored) {
    constexpr std::uint32_t kSmallestNormal = 113U << 23;  // 2^-14
    const std::uint32_t moved = (stored & 0x7fffU) << 13;
    const float subnormal =
        __builtin_bit_cast(float, moved + kSmallestNormal) - __builtin_bit_cast(float, kSmallestNormal);
    const std::uint32_t normal = moved + (112U << 23);
    std::uint32_t bits = moved < (1U << 23) ? __builtin_bit_cast(std::uint32_t, subnormal) : normal;
    bits = moved >= (31U << 23) ? moved + (224U << 23) : bits;  // infinity, NaN
    return __builtin_bit_cast(float, bits | (stored & 0x8000U) << 16);
  }
  [[gnu::always_inline]] static std::uint16_t store(float value) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const auto magnitude = static_cast<std::int32_t>(bits & 0x7fffffffU);  // signed: one instruction compares it
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5F;     // rounds to a multiple of 2^-24
    const std::int32_t subnormal = __builtin_bit_cast(std::int32_t, shifted) - 0x3f000000;
    const std::int32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    std::int32_t result = magnitude < 0x38800000 ? subnormal : normal;  // below 2^-14
    result = magnitude >= 0x477ff000 ? 0x7c00 : result;                 // 65520 and above: infinity
    result = magnitude > 0x7f800000 ? 0x7e00 : result;                  // NaN
    return static_cast<std::uint16_t>(static_cast<std::uint32_t>(result) | (bits >> 16 & 0x8000U));
  }
};

struct BFloat16Element {
  [[gnu::always_inline]] static float load(std::uint16_t stored) { return base::bf16_to_f32(stored); }
  [[gnu::always_inline]] static std::uint16_t store(float value) { return base::f32_to_bf16(value); }
};

// A few 16-bit elements of each array in fp32. Everything is inlined, for the vector width of the caller.
template <class Element>
class Block {
 public:
  static constexpr std::size_t kCount = 512;

  // REQUIRES: at most kCount elements.
  [[gnu::always_inline]] explicit Block(const UpdateArrays& stored) : stored_(stored) {
    decode(stored.weight, weight_);
    decode(stored.first, first_);
    decode(stored.second, second_);
    decode(stored.gradient, gradient_);
  }
  [[gnu::always_inline]] UpdateArrays decoded() {
    UpdateArrays arrays = stored_;
    arrays.dtype = DType::f32;
    arrays.weight = weight_;
    arrays.first = stored_.first == nullptr ? nullptr : first_;
    arrays.second = stored_.second == nullptr ? nullptr : second_;
    arrays.gradient = gradient_;
    return arrays;
  }
  [[gnu::always_inline]] void store() {
    encode(weight_, stored_.weight);
    encode(first_, stored_.first);
    encode(second_, stored_.second);
  }

 private:
  [[gnu::always_inline]] void decode(const void* from, float* __restrict to) const {
    if (from == nullptr) return;
    const auto* __restrict stored = static_cast<const std::uint16_t*>(from);
    for (std::size_t i = 0; i < stored_.count; ++i) to[i] = Element::load(stored[i]);
  }
  [[gnu::always_inline]] void encode(const float* __restrict from, void* to) const {
    if (to == nullptr) return;
    auto* __restrict stored = static_cast<std::uint16_t*>(to);
    for (std::size_t i = 0; i < stored_.count; ++i) stored[i] = Element::store(from[i]);
  }

  const UpdateArrays& stored_;
  float weight_[kCount], first_[kCount], second_[kCount], gradient_[kCount];
};

}  // namespace kolo

#pragma once
// Vectors for the host twins. Included by host_kernels_*.cpp only, once for each instruction set: everything here has
// internal linkage and nothing calls the standard library's inline functions, because a function compiled for AVX-512
// must never be the copy that the linker keeps for everybody.
//
// All work is in packs of kLanes elements, whatever their type: a pack of 16-bit elements fills one vector, of f32 two,
// of f64 four. Arithmetic is done in Pack<float>, Pack<double> or the integer itself.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors as values: only between functions that are inlined
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored \
    "-Wmaybe-uninitialized"  // GCC's own intrinsics, which use an undefined vector on purpose
#endif

#define KOLO_INLINE [[gnu::always_inline]] inline

namespace kolo::kernels {
namespace {

#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
constexpr std::size_t kLanes = kVectorBytes / 2;
constexpr std::size_t kLine = 64;  // streamed outputs start on one

constexpr std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

// kLanes elements of T.
template <class T>
struct Pack {
  static constexpr std::size_t kBytes = smaller(kVectorBytes, kLanes * sizeof(T));
  static constexpr std::size_t kVectors = kLanes * sizeof(T) / kBytes;
  typedef T Vector __attribute__((vector_size(kBytes)));
  Vector v[kVectors];
};

template <class T>
KOLO_INLINE T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
KOLO_INLINE void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// --- element types: how storage becomes the type that is computed in, one element and one pack at a time ------------

template <class T>
struct Plain {
  using Storage = T;
  using Compute = T;
  using Encoded = Pack<T>;
  KOLO_INLINE static T load_one(const std::byte* from) { return read<T>(from); }
  KOLO_INLINE static void store_one(std::byte* to, T value) { write(to, value); }
  KOLO_INLINE static Pack<T> load(const std::byte* from) {
    Pack<T> pack;
    for (std::size_t i = 0; i < Pack<T>::kVectors; ++i) {
      pack.v[i] = read<typename Pack<T>::Vector>(from + i * Pack<T>::kBytes);
    }
    return pack;
  }
  KOLO_INLINE static Encoded encode(const Pack<T>& pack) { return pack; }
};

// 16 bits as they are stored; half a vector widens to one vector of floats.
typedef std::uint16_t Half16 __attribute__((vector_size(kVectorBytes / 2)));
typedef std::uint32_t Bits32 __attribute__((vector_size(kVectorBytes)));
struct Encoded16 {
  static constexpr std::size_t kVectors = 2;
  Half16 v[2];
};

// The compiler's own __builtin_convertvector is several times slower than these.
KOLO_INLINE Bits32 widen_bits(Half16 half) {
#if defined(__AVX512F__)
  return (Bits32)_mm512_cvtepu16_epi32((__m256i)half);
#elif defined(__AVX2__)
  return (Bits32)_mm256_cvtepu16_epi32((__m128i)half);
#else
  return __builtin_convertvector(half, Bits32);
#endif
}

// Each of `bits` is below 2^16.
KOLO_INLINE Half16 narrow_bits(Bits32 bits) {
#if defined(__AVX512F__)
  return (Half16)_mm512_cvtepi32_epi16((__m512i)bits);
#elif defined(__AVX2__)
  const __m256i wide = (__m256i)bits;
  return (Half16)_mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
#else
  return __builtin_convertvector(bits, Half16);
#endif
}

struct BFloat16 {
  using Storage = std::uint16_t;
  using Compute = float;
  using Encoded = Encoded16;
  KOLO_INLINE static float load_one(const std::byte* from) { return base::bf16_to_f32(read<std::uint16_t>(from)); }
  KOLO_INLINE static void store_one(std::byte* to, float value) { write(to, base::f32_to_bf16(value)); }
  KOLO_INLINE static Pack<float> load(const std::byte* from) {
    Pack<float> pack;
    for (std::size_t i = 0; i < 2; ++i) {
      const Half16 half = read<Half16>(from + i * sizeof(Half16));
      pack.v[i] = (Pack<float>::Vector)(widen_bits(half) << 16);
    }
    return pack;
  }
  KOLO_INLINE static Encoded encode(const Pack<float>& pack) {
    Encoded encoded;
    for (std::size_t i = 0; i < 2; ++i) {
      const Bits32 bits = (Bits32)pack.v[i];
      const Bits32 rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
      const Bits32 nan = bits | 0x400000u;
      encoded.v[i] = narrow_bits((pack.v[i] != pack.v[i] ? nan : rounded) >> 16);
    }
    return encoded;
  }
};

struct Float16 {
  using Storage = std::uint16_t;
  using Compute = float;
  using Encoded = Encoded16;
  KOLO_INLINE static float load_one(const std::byte* from) { return base::f16_to_f32(read<std::uint16_t>(from)); }
  KOLO_INLINE static void store_one(std::byte* to, float value) { write(to, base::f32_to_f16(value)); }
  KOLO_INLINE static Pack<float>::Vector widen(Half16 half) {
#if defined(__AVX512F__)
    return (Pack<float>::Vector)_mm512_cvtph_ps((__m256i)half);
#elif defined(__AVX2__) && defined(__F16C__)
    return (Pack<float>::Vector)_mm256_cvtph_ps((__m128i)half);
#else
    Pack<float>::Vector wide;
    for (std::size_t i = 0; i < kLanes / 2; ++i) wide[i] = base::f16_to_f32(half[i]);
    return wide;
#endif
  }
  KOLO_INLINE static Half16 narrow(Pack<float>::Vector wide) {
#if defined(__AVX512F__)
    return (Half16)_mm512_cvtps_ph((__m512)wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__) && defined(__F16C__)
    return (Half16)_mm256_cvtps_ph((__m256)wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    Half16 half;
    for (std::size_t i = 0; i < kLanes / 2; ++i) half[i] = base::f32_to_f16(wide[i]);
    return half;
#endif
  }
  KOLO_INLINE static Pack<float> load(const std::byte* from) {
    return {{widen(read<Half16>(from)), widen(read<Half16>(from + sizeof(Half16)))}};
  }
  KOLO_INLINE static Encoded encode(const Pack<float>& pack) { return {{narrow(pack.v[0]), narrow(pack.v[1])}}; }
};

// --- stores ----------------------------------------------------------------------------------------------------------

template <class Vector>
KOLO_INLINE void store_streaming(std::byte* to, Vector value) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Vector) == 64) return _mm512_stream_si512((__m512i*)to, (__m512i)value);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(Vector) == 32) return _mm256_stream_si256((__m256i*)to, (__m256i)value);
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(Vector) == 16) return _mm_stream_si128((__m128i*)to, (__m128i)value);
#endif
  write(to, value);
}

template <bool streaming, class Encoded>
KOLO_INLINE void store(std::byte* to, const Encoded& encoded) {
  for (std::size_t i = 0; i < Encoded::kVectors; ++i) {
    constexpr std::size_t bytes = sizeof(encoded.v[0]);
    if constexpr (streaming) {
      store_streaming(to + i * bytes, encoded.v[i]);
    } else {
      write(to + i * bytes, encoded.v[i]);
    }
  }
}

// Streamed stores become visible to other threads and processes in no order without this.
KOLO_INLINE void fence_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// How many elements to do one by one until `to` is on a line; `count` if it never is.
KOLO_INLINE std::size_t elements_to_line(const std::byte* to, std::size_t element_bytes, std::size_t count) {
  const std::size_t past = (std::size_t)to % kLine;
  if (past == 0) return 0;
  if ((kLine - past) % element_bytes != 0) return count;
  return smaller((kLine - past) / element_bytes, count);
}

}  // namespace
}  // namespace kolo::kernels

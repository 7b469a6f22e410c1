#pragma once
// Elements as device code moves them: bits in memory, a value in between, and how one becomes the other. For device and
// host alike; that both agree bit by bit, but for which NaN a NaN becomes, is what allows the tests to run kernels
// without a device. The device converts 16-bit floats by its own instructions, which round as base/float16.h does.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "base/host_device.h"

namespace kolo::kernels {

struct F32 {
  using Bits = std::uint32_t;
  using Value = float;
  KOLO_HOST_DEVICE static Value decode(Bits bits) { return __builtin_bit_cast(float, bits); }
  KOLO_HOST_DEVICE static Bits encode(Value value) { return __builtin_bit_cast(std::uint32_t, value); }
};

struct F64 {
  using Bits = std::uint64_t;
  using Value = double;
  KOLO_HOST_DEVICE static Value decode(Bits bits) { return __builtin_bit_cast(double, bits); }
  KOLO_HOST_DEVICE static Bits encode(Value value) { return __builtin_bit_cast(std::uint64_t, value); }
};

struct F16 {
  using Bits = std::uint16_t;
  using Value = float;
  KOLO_HOST_DEVICE static Value decode(Bits bits) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return base::f16_to_f32(bits);
#endif
  }
  KOLO_HOST_DEVICE static Bits encode(Value value) {
#ifdef __CUDA_ARCH__
    Bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return base::f32_to_f16(value);
#endif
  }
};

struct BF16 {
  using Bits = std::uint16_t;
  using Value = float;
  KOLO_HOST_DEVICE static Value decode(Bits bits) { return base::bf16_to_f32(bits); }
  KOLO_HOST_DEVICE static Bits encode(Value value) {
#ifdef __CUDA_ARCH__
    Bits bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return base::f32_to_bf16(value);
#endif
  }
};

// What is only moved: the unsigned integer of its size.
template <class Unsigned>
struct Plain {
  using Bits = Unsigned;
  using Value = Unsigned;
  KOLO_HOST_DEVICE static Value decode(Bits bits) { return bits; }
  KOLO_HOST_DEVICE static Bits encode(Value value) { return value; }
};

// So many elements that are read or written in one access, which must be aligned to their size.
template <class Bits, unsigned kCount>
struct alignas(sizeof(Bits) * kCount) Pack {
  Bits lane[kCount];
};

[[nodiscard]] KOLO_HOST_DEVICE inline std::uintptr_t behind(const void* address, std::size_t boundary) {
  return reinterpret_cast<std::uintptr_t>(address) & (boundary - 1);
}

// The device faults on a misaligned access. The host would not, so its bodies ask: throws std::logic_error.
void require_aligned(const void* address, std::size_t bytes);

template <class T>
[[nodiscard]] KOLO_HOST_DEVICE T load(const std::byte* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const T*>(from);
#else
  require_aligned(from, sizeof(T));
  T loaded;
  std::memcpy(&loaded, from, sizeof(T));
  return loaded;
#endif
}

template <class T>
KOLO_HOST_DEVICE void store(std::byte* to, const T& value) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<T*>(to) = value;
#else
  require_aligned(to, sizeof(T));
  std::memcpy(to, &value, sizeof(T));
#endif
}

// At an address that is no multiple of the element's size: byte by byte.
template <class Bits>
[[nodiscard]] KOLO_HOST_DEVICE Bits load_bytes(const std::byte* from) {
  Bits bits = 0;
  for (unsigned i = 0; i < sizeof(Bits); ++i) {
    bits = static_cast<Bits>(bits | static_cast<Bits>(static_cast<Bits>(from[i]) << (8 * i)));
  }
  return bits;
}

// The same bits as an integer. ptxas (of CUDA 13.0 at least) remembers that a 16-bit register came out of a conversion
// to f16 or bf16, and where its low byte is stored it converts that number to an 8-bit integer. A move of bits forgets
// it.
template <class Bits>
[[nodiscard]] KOLO_HOST_DEVICE Bits as_integer(Bits bits) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(Bits) == 2) {
    unsigned word;
    asm("mov.b32 %0, {%1, %1};" : "=r"(word) : "h"(bits));
    return static_cast<Bits>(word);
  }
#endif
  return bits;
}

template <class Bits>
KOLO_HOST_DEVICE void store_bytes(std::byte* to, Bits value) {
  const Bits bits = as_integer(value);
  for (unsigned i = 0; i < sizeof(Bits); ++i) to[i] = static_cast<std::byte>((bits >> (8 * i)) & 0xff);
}

}  // namespace kolo::kernels

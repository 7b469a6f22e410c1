#pragma once
// Slow and obvious arithmetic that the kernels are compared with, bit for bit, and the instruction sets to compare.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "base/float16.h"
#include "kernels/host_kernels.h"
#include "kolo/types.h"

namespace kolo::kernels::test {

inline std::vector<const HostKernels*> usable_kernels() {
  std::vector<const HostKernels*> usable;
  for (const HostKernels* kernels : {portable_kernels(), avx2_kernels(), avx512_kernels()}) {
    if (kernels != nullptr) usable.push_back(kernels);
  }
  return usable;
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

inline double load_float(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return read<float>(from);
    case DType::f64:
      return read<double>(from);
    case DType::f16:
      return base::f16_to_f32(read<std::uint16_t>(from));
    case DType::bf16:
      return base::bf16_to_f32(read<std::uint16_t>(from));
    default:
      throw std::logic_error("not a float");
  }
}

inline void store_float(std::byte* to, DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return write(to, static_cast<float>(value));
    case DType::f64:
      return write(to, value);
    case DType::f16:
      return write(to, base::f32_to_f16(static_cast<float>(value)));
    case DType::bf16:
      return write(to, base::f32_to_bf16(static_cast<float>(value)));
    default:
      throw std::logic_error("not a float");
  }
}

inline std::int64_t load_integer(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::i8:
      return read<std::int8_t>(from);
    case DType::u8:
    case DType::boolean:
      return read<std::uint8_t>(from);
    case DType::i16:
      return read<std::int16_t>(from);
    case DType::i32:
      return read<std::int32_t>(from);
    case DType::i64:
      return read<std::int64_t>(from);
    default:
      throw std::logic_error("not an integer");
  }
}

// Little endian: the low bytes are the value modulo 2^bits.
inline void store_integer(std::byte* to, DType dtype, std::int64_t value) { std::memcpy(to, &value, size_of(dtype)); }

// Random bytes of a type's values: any integer, 0 or 1, or floats of mixed size with zeros, subnormals and infinities.
inline void fill(std::byte* to, std::size_t count, DType dtype, std::mt19937_64& random) {
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* at = to + i * size_of(dtype);
    if (dtype == DType::boolean) {
      write<std::uint8_t>(at, random() & 1);
    } else if (!is_floating(dtype)) {
      store_integer(at, dtype, static_cast<std::int64_t>(random()));
    } else {
      const double sign = (random() & 1) != 0 ? 1.0 : -1.0;
      const double value =
          std::ldexp(1.0 + static_cast<double>(random() % 4096) / 4096, static_cast<int>(random() % 30) - 20);
      const auto kind = random() % 64;
      const double tiny = dtype == DType::f16 ? 0x1p-24 : 0x1p-130;
      store_float(at, dtype,
                  kind == 0   ? 0.0
                  : kind == 1 ? sign * tiny
                  : kind == 2 ? sign * 1e300 * 1e300
                              : sign * value);
    }
  }
}

// Equal as bits; a NaN equals any NaN.
inline bool same(const std::byte* a, const std::byte* b, DType dtype) {
  if (std::memcmp(a, b, size_of(dtype)) == 0) return true;
  return is_floating(dtype) && std::isnan(load_float(a, dtype)) && std::isnan(load_float(b, dtype));
}

inline bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// What scale_copy() makes of one element: in fp32 wherever fp32 or a 16-bit type is alone with its like or a 16-bit
// type takes part, else in fp64.
inline void scale_reference(const std::byte* in, DType in_type, std::byte* out, DType out_type, double scale) {
  const bool wide = !is_narrow(in_type) && !is_narrow(out_type) && (in_type == DType::f64 || out_type == DType::f64);
  const double value = load_float(in, in_type);
  const double result =
      wide ? value * scale : static_cast<double>(static_cast<float>(value) * static_cast<float>(scale));
  store_float(out, out_type, result);
}

}  // namespace kolo::kernels::test

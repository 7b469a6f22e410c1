#include "collectives/widen.h"

#include <algorithm>

#include "kolo/error.h"

namespace kolo::collectives {
namespace {

template <class F>
void with_integer(DType dtype, F&& body) {
  switch (dtype) {
    case DType::i8:
      return body(std::int8_t{});
    case DType::u8:
      return body(std::uint8_t{});
    case DType::i16:
      return body(std::int16_t{});
    case DType::i32:
      return body(std::int32_t{});
    default:
      throw UsageError("widening needs an integer type of 8 to 32 bits");
  }
}

}  // namespace

bool can_widen(DType dtype) noexcept {
  return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::i16 || dtype == DType::i32;
}

void widen(const std::byte* from, DType dtype, std::size_t count, std::int64_t* to) {
  with_integer(dtype, [&]<class T>(T) { std::copy_n(reinterpret_cast<const T*>(from), count, to); });
}

void narrow(const std::int64_t* from, DType dtype, std::size_t count, std::byte* to) {
  with_integer(dtype, [&]<class T>(T) {
    std::transform(from, from + count, reinterpret_cast<T*>(to),
                   [](std::int64_t value) { return static_cast<T>(value); });
  });
}

}  // namespace kolo::collectives

#include "support/device/nccl_arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/float16.h"

namespace kolo::test {
namespace {

using nccl::Op;
using nccl::Type;

template <class T>
T combine(Op op, T a, T b) {
  using Wrapping =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (op) {
    case Op::sum:
      return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
    case Op::product:
      return static_cast<T>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
    case Op::max:
      return std::max(a, b);
    case Op::min:
      return std::min(a, b);
  }
  return a;
}

template <class Stored, class Decode, class Encode>
void each(std::vector<std::byte>& into, const std::vector<std::byte>& from, Op op, Decode decode, Encode encode) {
  for (std::size_t at = 0; at + sizeof(Stored) <= into.size(); at += sizeof(Stored)) {
    Stored a;
    Stored b;
    std::memcpy(&a, into.data() + at, sizeof(a));
    std::memcpy(&b, from.data() + at, sizeof(b));
    a = encode(combine(op, decode(a), decode(b)));
    std::memcpy(into.data() + at, &a, sizeof(a));
  }
}

template <class T>
void plain(std::vector<std::byte>& into, const std::vector<std::byte>& from, Op op) {
  each<T>(
      into, from, op, [](T value) { return value; }, [](T value) { return value; });
}

}  // namespace

std::size_t size_of(Type type) {
  switch (type) {
    case Type::i8:
    case Type::u8:
      return 1;
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::i32:
    case Type::u32:
    case Type::f32:
      return 4;
    case Type::i64:
    case Type::u64:
    case Type::f64:
      return 8;
  }
  return 0;
}

void reduce_into(std::vector<std::byte>& into, const std::vector<std::byte>& from, Type type, Op op) {
  switch (type) {
    case Type::i8:
      return plain<std::int8_t>(into, from, op);
    case Type::u8:
      return plain<std::uint8_t>(into, from, op);
    case Type::i32:
      return plain<std::int32_t>(into, from, op);
    case Type::u32:
      return plain<std::uint32_t>(into, from, op);
    case Type::i64:
      return plain<std::int64_t>(into, from, op);
    case Type::u64:
      return plain<std::uint64_t>(into, from, op);
    case Type::f32:
      return plain<float>(into, from, op);
    case Type::f64:
      return plain<double>(into, from, op);
    case Type::f16:
      return each<std::uint16_t>(
          into, from, op, [](std::uint16_t bits) { return base::f16_to_f32(bits); },
          [](float value) { return base::f32_to_f16(value); });
    case Type::bf16:
      return each<std::uint16_t>(
          into, from, op, [](std::uint16_t bits) { return base::bf16_to_f32(bits); },
          [](float value) { return base::f32_to_bf16(value); });
  }
}

}  // namespace kolo::test

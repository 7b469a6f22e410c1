#pragma once
// Elements that differ by rank and whose sums, averages and extremes are exact in every type, with the expected
// results.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/float16.h"
#include "kolo/types.h"

namespace kolo::test {

inline void store(std::byte* at, DType dtype, double value) {
  const auto put = [at](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  const auto whole = static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::f64:
      return put(value);
    case DType::f16:
      return put(base::f32_to_f16(static_cast<float>(value)));
    case DType::bf16:
      return put(base::f32_to_bf16(static_cast<float>(value)));
    case DType::i8:
      return put(static_cast<std::int8_t>(whole));
    case DType::u8:
      return put(static_cast<std::uint8_t>(whole));
    case DType::i16:
      return put(static_cast<std::int16_t>(whole));
    case DType::i32:
      return put(static_cast<std::int32_t>(whole));
    case DType::i64:
      return put(whole);
    case DType::boolean:
      return put(static_cast<std::uint8_t>(value != 0));
  }
}

// Even numbers up to 2 (10 + 2 (p-1)), so that for 8 ranks every partial sum fits bf16, and p divides every sum.
// For a product: twos, ones, and one three, so that it has few digits in every type.
inline double value_at(DType dtype, Rank rank, std::size_t i, ReduceOp op = ReduceOp::sum) {
  const bool third = (i + static_cast<std::size_t>(rank)) % 3 == 0;
  if (dtype == DType::boolean) return third ? 1 : 0;
  if (op == ReduceOp::product) return static_cast<std::size_t>(rank) == i % 4 ? 3 : third ? 2 : 1;
  return 2.0 * (static_cast<double>(i % 11) + static_cast<double>(rank) * static_cast<double>(i % 3));
}

inline double expected_at(DType dtype, ReduceOp op, int size, std::size_t i) {
  if (dtype == DType::boolean) {
    bool any = false;
    bool all = true;
    for (Rank r = 0; r < size; ++r) {
      any = any || value_at(dtype, r, i) != 0;
      all = all && value_at(dtype, r, i) != 0;
    }
    return op == ReduceOp::sum || op == ReduceOp::max ? any : all;
  }
  if (op == ReduceOp::product) {
    double product = 1;
    for (Rank r = 0; r < size; ++r) product *= value_at(dtype, r, i, op);
    return product;
  }
  const double first = value_at(dtype, 0, i);
  const double last = value_at(dtype, size - 1, i);  // linear in the rank
  switch (op) {
    case ReduceOp::sum:
      return (first + last) / 2 * size;
    case ReduceOp::average:
      return (first + last) / 2;
    case ReduceOp::min:
      return first;
    case ReduceOp::max:
      return last;
    case ReduceOp::product:
      break;
  }
  return 0;
}

// All of the above repeats after so many elements.
inline constexpr std::size_t kPeriod = std::size_t{11} * 3 * 4;

// value(0), value(1) ... of something that repeats: what follows the first period is copied.
template <class Value>
std::vector<std::byte> elements(DType dtype, std::size_t count, Value value) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> data(count * size);
  std::size_t done = std::min(count, kPeriod);
  for (std::size_t i = 0; i < done; ++i) store(data.data() + i * size, dtype, value(i));
  while (done < count) {  // doubled each time, so that it stays a multiple of the period
    const std::size_t more = std::min(done, count - done);
    std::memcpy(data.data() + done * size, data.data(), more * size);
    done += more;
  }
  return data;
}

inline std::vector<std::byte> contribution(DType dtype, Rank rank, std::size_t count, ReduceOp op = ReduceOp::sum) {
  return elements(dtype, count, [&](std::size_t i) { return value_at(dtype, rank, i, op); });
}

// Elements [first, first + count) of the reduction.
inline std::vector<std::byte> reduction(DType dtype, ReduceOp op, int size, std::size_t first, std::size_t count) {
  return elements(dtype, count, [&](std::size_t i) { return expected_at(dtype, op, size, first + i); });
}

}  // namespace kolo::test

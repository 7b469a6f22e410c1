#include "perf_data.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace kolo::tools {
namespace {

// Whole numbers below 2048 only.
std::uint16_t f16_bits(std::int64_t value) {
  if (value == 0) return 0;
  const int exponent = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - 1;
  const auto mantissa = static_cast<std::uint16_t>((value << 10 >> exponent) & 0x3ff);
  return static_cast<std::uint16_t>(((exponent + 15) << 10) | mantissa);
}

void store(std::byte* at, DType dtype, std::int64_t value) {
  const auto put = [at](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::f64:
      return put(static_cast<double>(value));
    case DType::f16:
      return put(f16_bits(value));
    case DType::bf16:
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DType::i8:
      return put(static_cast<std::int8_t>(value));
    case DType::u8:
      return put(static_cast<std::uint8_t>(value));
    case DType::i16:
      return put(static_cast<std::int16_t>(value));
    case DType::i32:
      return put(static_cast<std::int32_t>(value));
    case DType::i64:
      return put(value);
    case DType::boolean:
      return put(static_cast<std::uint8_t>(value != 0));
  }
}

// Even, and linear in the rank, so that the sum over all ranks divides by their number.
std::int64_t value_at(DType dtype, Rank rank, int iteration, std::size_t i) {
  const auto shifted = static_cast<std::int64_t>(i) + iteration;
  if (dtype == DType::boolean) return (shifted + rank) % 3 == 0 ? 1 : 0;
  return 2 * (shifted % 5 + rank * (shifted % 2));
}

std::int64_t reduced_at(DType dtype, ReduceOp op, int ranks, int iteration, std::size_t i) {
  const bool boolean = dtype == DType::boolean;
  std::int64_t sum = 0;
  std::uint64_t product = 1;  // wraps
  std::int64_t low = value_at(dtype, 0, iteration, i);
  std::int64_t high = low;
  for (Rank r = 0; r < ranks; ++r) {
    const std::int64_t value = value_at(dtype, r, iteration, i);
    sum += value;
    product *= static_cast<std::uint64_t>(value);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  switch (op) {
    case ReduceOp::sum:
      return boolean ? high : sum;
    case ReduceOp::average:
      return boolean ? low : sum / ranks;
    case ReduceOp::min:
      return low;
    case ReduceOp::max:
      return high;
    case ReduceOp::product:
      return static_cast<std::int64_t>(product);
  }
  return 0;
}

template <class F>
std::vector<std::byte> block_of(DType dtype, std::size_t elements, F&& value) {
  elements = std::min(elements, Pattern::kPeriod);
  std::vector<std::byte> block(elements * size_of(dtype));
  for (std::size_t i = 0; i < elements; ++i) store(block.data() + i * size_of(dtype), dtype, value(i));
  return block;
}

// Calls body(offset into data, offset into the block, bytes) for each stretch that does not wrap.
template <class F>
void for_stretches(std::size_t bytes, std::size_t block_bytes, std::size_t start, F&& body) {
  if (bytes == 0) return;
  std::size_t at = start % block_bytes;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(block_bytes - at, bytes - done);
    body(done, at, now);
    done += now;
    at = 0;
  }
}

}  // namespace

Pattern Pattern::input(DType dtype, std::size_t elements, Rank rank, int iteration) {
  return {dtype, block_of(dtype, elements, [&](std::size_t i) { return value_at(dtype, rank, iteration, i); })};
}

Pattern Pattern::reduced(DType dtype, std::size_t elements, ReduceOp op, int ranks, int iteration) {
  return {dtype, block_of(dtype, elements, [&](std::size_t i) { return reduced_at(dtype, op, ranks, iteration, i); })};
}

void Pattern::fill(std::span<std::byte> data, std::size_t first) const {
  for_stretches(
      data.size(), block_.size(), first * size_of(dtype_),
      [&](std::size_t to, std::size_t from, std::size_t n) { std::memcpy(data.data() + to, block_.data() + from, n); });
}

std::size_t Pattern::count_wrong(std::span<const std::byte> data, std::size_t first) const {
  const std::size_t element = size_of(dtype_);
  std::size_t wrong = 0;
  for_stretches(data.size(), block_.size(), first * element, [&](std::size_t at, std::size_t from, std::size_t n) {
    if (std::memcmp(data.data() + at, block_.data() + from, n) == 0) return;
    for (std::size_t i = 0; i < n; i += element) {
      wrong += std::memcmp(data.data() + at + i, block_.data() + from + i, element) != 0 ? 1 : 0;
    }
  });
  return wrong;
}

}  // namespace kolo::tools

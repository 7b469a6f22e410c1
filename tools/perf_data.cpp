#include "perf_data.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

// Whole numbers up to 2048 only, and even ones up to 4096.
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

// Every rank's is another.
std::int64_t value_at(DType dtype, Rank rank, int iteration, std::size_t i) {
  const auto shifted = static_cast<std::int64_t>(i) + iteration;
  if (dtype == DType::boolean) return (shifted + rank) % 3 == 0 ? 1 : 0;
  return 2 * (shifted % 5 + rank * (shifted % 2));
}

// Twos of as many ranks as the element says, never more than three, and ones: no type is too small for their product.
std::int64_t factor_at(int ranks, Rank rank, std::int64_t shifted) {
  return (shifted + rank) % ranks < shifted % 4 ? 2 : 1;
}

// The mean, that is the element's, and what a rank has more its mirror image has less: the sum divides by the number of
// ranks. From 0 to 2 * kMean.
constexpr std::int64_t kMean = 4;  // at most
std::int64_t summand_at(int ranks, Rank rank, std::int64_t shifted) {
  const Rank mirror = ranks - 1 - rank;
  const std::int64_t mean = kMean - shifted % 3;
  if (rank == mirror) return mean;
  const std::int64_t more = (std::min(rank, mirror) + shifted / 3) % 3;
  return rank < mirror ? mean + more : mean - more;
}

std::int64_t operand_at(const Reduction& reduction, Rank rank, int iteration, std::size_t i) {
  const auto shifted = static_cast<std::int64_t>(i) + iteration;
  if (reduction.dtype == DType::boolean) return value_at(reduction.dtype, rank, iteration, i);
  return reduction.op == ReduceOp::product ? factor_at(reduction.ranks, rank, shifted)
                                           : summand_at(reduction.ranks, rank, shifted);
}

std::int64_t reduced_at(const Reduction& reduction, int iteration, std::size_t i) {
  const bool boolean = reduction.dtype == DType::boolean;
  std::int64_t sum = 0;
  std::uint64_t product = 1;  // wraps where it is not asked for
  std::int64_t low = operand_at(reduction, 0, iteration, i);
  std::int64_t high = low;
  for (Rank r = 0; r < reduction.ranks; ++r) {
    const std::int64_t value = operand_at(reduction, r, iteration, i);
    sum += value;
    product *= static_cast<std::uint64_t>(value);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  switch (reduction.op) {
    case ReduceOp::sum:
      return boolean ? high : sum;
    case ReduceOp::average:
      return boolean ? low : sum / reduction.ranks;
    case ReduceOp::min:
      return low;
    case ReduceOp::max:
      return high;
    case ReduceOp::product:
      return static_cast<std::int64_t>(product);
  }
  return 0;
}

// Whole numbers up to this one are exact. Integers wrap as the reduction does.
std::int64_t largest_exact(DType dtype) {
  if (dtype == DType::bf16) return 1 << 8;
  if (dtype == DType::f16) return 1 << 11;
  if (dtype == DType::f32) return 1 << 24;
  return std::numeric_limits<std::int64_t>::max();
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

void check_exact(const Reduction& reduction) {
  if (reduction.op != ReduceOp::sum && reduction.op != ReduceOp::average) return;
  const std::int64_t most = largest_exact(reduction.dtype) / kMean;
  if (reduction.ranks <= most) return;
  throw UsageError("results of " + std::string(name_of(reduction.op)) + " in " + std::string(name_of(reduction.dtype)) +
                   " can be verified up to " + std::to_string(most) + " ranks, not " + std::to_string(reduction.ranks) +
                   "; use another --dtype");
}

Pattern Pattern::input(DType dtype, std::size_t elements, Rank rank, int iteration) {
  return {dtype, block_of(dtype, elements, [&](std::size_t i) { return value_at(dtype, rank, iteration, i); })};
}

Pattern Pattern::operand(const Reduction& reduction, std::size_t elements, Rank rank, int iteration) {
  return {reduction.dtype, block_of(reduction.dtype, elements,
                                    [&](std::size_t i) { return operand_at(reduction, rank, iteration, i); })};
}

Pattern Pattern::reduced(const Reduction& reduction, std::size_t elements, int iteration) {
  return {reduction.dtype,
          block_of(reduction.dtype, elements, [&](std::size_t i) { return reduced_at(reduction, iteration, i); })};
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

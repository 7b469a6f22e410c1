// The largest value whose average is right, and the smallest that overflows, as kolo/types.h documents for
// ReduceOp::average.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/float16.h"
#include "multirank/engine/world.h"

namespace kolo::test {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store_float(DType dtype, double value, std::byte* to) {
  if (dtype == DType::f64) return store(value, to);
  if (dtype == DType::f32) return store(static_cast<float>(value), to);
  const auto single = static_cast<float>(value);
  store(dtype == DType::f16 ? base::f32_to_f16(single) : base::f32_to_bf16(single), to);
}

double load_float(DType dtype, const std::byte* from) {
  if (dtype == DType::f64) return load<double>(from);
  if (dtype == DType::f32) return load<float>(from);
  const auto bits = load<std::uint16_t>(from);
  return dtype == DType::f16 ? base::f16_to_f32(bits) : base::bf16_to_f32(bits);
}

// The average of `input`, the same on all ranks, by an operation with a name.
Bytes named_average(Context& context, DType dtype, const Bytes& input) {
  Bytes output(input.size());
  Request request;
  request.name = "average";
  request.dtype = dtype;
  request.op = ReduceOp::average;
  request.sizes = {static_cast<std::int64_t>(input.size() / size_of(dtype))};
  request.input = input.data();
  request.output = output.data();
  context.engine().submit(request).wait();
  return output;
}

// The same as a gradient.
Bytes gradient_average(Context& context, DType dtype, const Bytes& input) {
  const auto count = static_cast<std::int64_t>(input.size() / size_of(dtype));
  const auto reducer = context.engine().make_reducer({GradientInfo{"weight", {count}, {1}, dtype}}, ReducerOptions{});
  reducer->contribute(0, input.data());
  reducer->finish();
  const auto bytes = reducer->gradient(0);
  return {bytes.begin(), bytes.end()};
}

// Few elements, and so many that other algorithms carry them.
constexpr std::size_t kCounts[] = {3, 200'000};

struct Bound {
  DType dtype;
  double largest;  // of all ranks, whose average is right
  double above;    // the next one of the type; 0: no larger one
  double result;   // its average
};

void expect_average(const Hosts& hosts, DType dtype, double value, double wanted) {
  run_world(hosts, quick(), [&](Context& context) {
    for (const std::size_t count : kCounts) {
      Bytes input(count * size_of(dtype));
      for (std::size_t i = 0; i < count; ++i) store_float(dtype, value, input.data() + i * size_of(dtype));
      for (const auto& result : {named_average(context, dtype, input), gradient_average(context, dtype, input)}) {
        for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
          EXPECT_EQ(load_float(dtype, result.data() + i * size_of(dtype)), wanted)
              << name_of(dtype) << " " << value << " on " << hosts.size() << " ranks, " << count << " elements";
        }
      }
    }
  });
}

void expect_bounds(const Hosts& hosts, const std::vector<Bound>& bounds) {
  for (const Bound& bound : bounds) {
    for (const double sign : {1.0, -1.0}) {
      expect_average(hosts, bound.dtype, sign * bound.largest, sign * bound.largest);
      if (bound.above != 0) expect_average(hosts, bound.dtype, sign * bound.above, sign * bound.result);
    }
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargestF32 = std::numeric_limits<float>::max();
constexpr double kLargestF64 = std::numeric_limits<double>::max();
constexpr double kLargestBf16 = 0x1.fep127;

// With a power of two as the number of ranks: the sum of the largest ones is the largest finite number.
std::vector<Bound> bounds_of_sums(double ranks) {
  return {{DType::f32, kLargestF32 / ranks, 0x1p128 / ranks, kInfinity},
          {DType::bf16, kLargestBf16 / ranks, 0x1p128 / ranks, kInfinity},
          {DType::f64, kLargestF64 / ranks, 0x1p1023 / (ranks / 2), kInfinity}};
}

TEST(AverageBound, OverflowsIfSumOfRanksOverflowsOnOneHost) {
  expect_bounds({0, 0}, bounds_of_sums(2));
  expect_bounds({0, 0, 0, 0}, bounds_of_sums(4));
}

TEST(AverageBound, OverflowsIfSumOfRanksOverflowsOnTwoHosts) {
  expect_bounds({0, 1}, bounds_of_sums(2));
  expect_bounds({0, 0, 1, 1}, bounds_of_sums(4));
}

TEST(AverageBound, AverageOf3e38InF32IsInfinite) {
  for (const Hosts& hosts : {Hosts{0, 0}, Hosts{0, 1}}) expect_average(hosts, DType::f32, 3e38F, kInfinity);
}

TEST(AverageBound, F16NeverOverflowsOnOneHost) { expect_bounds({0, 0, 0}, {{DType::f16, 65504, 0, 0}}); }

TEST(AverageBound, F16OverflowsIfSumOfRanksOverflowsOnSeveralHosts) {
  expect_bounds({0, 0, 1, 1}, {{DType::f16, 16376, 16384, kInfinity}});
  expect_bounds({0, 1, 2}, {{DType::f16, 21824, 32768, kInfinity}});
}

TEST(AverageBound, SumWithPrescaleDoesNotOverflow) {
  run_world(Hosts{0, 1}, quick(), [](Context& context) {
    const std::vector<float> input(3, 3e38F);
    std::vector<float> output(3);
    Request request = allreduce("scaled", input, &output);
    request.op = ReduceOp::sum;
    request.prescale = 1.0 / context.size();
    context.engine().submit(request).wait();
    EXPECT_EQ(output, input);
  });
}

template <class T>
void expect_integers(const Hosts& hosts, DType dtype, T value, T wanted) {
  run_world(hosts, quick(), [&](Context& context) {
    for (const std::size_t count : kCounts) {
      Bytes input(count * sizeof(T));
      for (std::size_t i = 0; i < count; ++i) store(value, input.data() + i * sizeof(T));
      const Bytes result = named_average(context, dtype, input);
      EXPECT_EQ(load<T>(result.data()), wanted) << name_of(dtype);
      EXPECT_EQ(load<T>(result.data() + (count - 1) * sizeof(T)), wanted) << name_of(dtype);
    }
  });
}

template <class T>
void expect_extremes(const Hosts& hosts, DType dtype) {
  expect_integers(hosts, dtype, std::numeric_limits<T>::max(), std::numeric_limits<T>::max());
  expect_integers(hosts, dtype, std::numeric_limits<T>::min(), std::numeric_limits<T>::min());
}

TEST(AverageBound, ShortIntegersNeverOverflow) {
  for (const Hosts& hosts : {Hosts{0, 0, 0}, Hosts{0, 1, 2}, Hosts{0, 0, 1, 1}}) {
    expect_extremes<std::int8_t>(hosts, DType::i8);
    expect_extremes<std::uint8_t>(hosts, DType::u8);
    expect_extremes<std::int16_t>(hosts, DType::i16);
    expect_extremes<std::int32_t>(hosts, DType::i32);
  }
}

TEST(AverageBound, I64WrapsIfSumExceeds64Bits) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  for (const Hosts& hosts : {Hosts{0, 0}, Hosts{0, 1}}) {
    expect_integers(hosts, DType::i64, kHalf - 1, kHalf - 1);
    expect_integers(hosts, DType::i64, -kHalf, -kHalf);
    expect_integers(hosts, DType::i64, kHalf, -kHalf);
  }
}

}  // namespace
}  // namespace kolo::test

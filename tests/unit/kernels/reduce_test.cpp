#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/host_kernels.h"
#include "kolo/error.h"
#include "unit/kernels/guarded.h"
#include "unit/kernels/reference.h"

namespace kolo::kernels::test {
namespace {

constexpr DType kAllTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                               DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};

double combine(double a, double b, ReduceOp op) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (op == ReduceOp::min) return b < a ? b : a;
  if (op == ReduceOp::max) return b > a ? b : a;
  if (op == ReduceOp::product) return a * b;
  return a + b;
}

// One element in the arithmetic that reduce.h promises: fp32 (every step rounded), or fp64.
void reference_float(const ReduceJob& job, std::size_t at, std::byte* result) {
  const bool wide = job.dtype == DType::f64;
  const auto rounded = [wide](double x) { return wide ? x : static_cast<double>(static_cast<float>(x)); };
  const double prescale = rounded(job.prescale), postscale = rounded(job.postscale);
  double value = rounded(load_float(job.inputs[0] + at, job.dtype) * prescale);
  for (int k = 1; k < job.input_count; ++k) {
    value = rounded(combine(value, rounded(load_float(job.inputs[k] + at, job.dtype) * prescale), job.op));
  }
  value = rounded(value / job.divisor);
  store_float(result, job.dtype, rounded(value * postscale));
}

std::int64_t combine(std::int64_t a, std::int64_t b, const ReduceJob& job) {
  if (job.dtype == DType::boolean) {
    return job.op == ReduceOp::sum || job.op == ReduceOp::max ? (a | b) : (a & b);
  }
  if (job.op == ReduceOp::min) return std::min(a, b);
  if (job.op == ReduceOp::max) return std::max(a, b);
  const auto [x, y] = std::pair(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
  return static_cast<std::int64_t>(job.op == ReduceOp::product ? x * y : x + y);
}

void reference_integer(const ReduceJob& job, std::size_t at, std::byte* result) {
  std::int64_t value = load_integer(job.inputs[0] + at, job.dtype);
  for (int k = 1; k < job.input_count; ++k) value = combine(value, load_integer(job.inputs[k] + at, job.dtype), job);
  if (job.op == ReduceOp::average && job.dtype != DType::boolean) value /= job.divisor;
  store_integer(result, job.dtype, value);
}

struct Case {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int inputs = 2;
  int outputs = 2;
  std::size_t count = 0;
  std::size_t misalignment = 0;  // bytes; buffer k is at misalignment + k * step
  std::size_t step = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  bool streaming = false;
  bool in_place = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c.dtype) << ' ' << name_of(c.op) << ' ' << c.inputs << "->" << c.outputs << " count " << c.count
             << " at " << c.misalignment << '+' << c.step << " scales " << c.prescale << ' ' << c.postscale
             << (c.streaming ? " streaming" : "") << (c.in_place ? " in place" : "");
}

void check(const HostKernels& kernels, const Case& c) {
  std::mt19937_64 random(c.count * 131 + static_cast<std::size_t>(c.inputs) * 7 + static_cast<std::size_t>(c.dtype));
  const std::size_t size = size_of(c.dtype), bytes = c.count * size;
  std::vector<Guarded> inputs, outputs;
  for (int k = 0; k < c.inputs; ++k) {
    inputs.emplace_back(bytes, c.misalignment + static_cast<std::size_t>(k) * c.step);
    fill(inputs.back().data(), c.count, c.dtype, random);
  }
  for (int k = 0; k < c.outputs; ++k)
    outputs.emplace_back(bytes, c.misalignment + static_cast<std::size_t>(k) * c.step);
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (Guarded& input : inputs) in.push_back(input.data());
  for (Guarded& output : outputs) out.push_back(output.data());
  if (c.in_place) {
    for (int k = 0; k < std::min(c.inputs, c.outputs); ++k)
      out[static_cast<std::size_t>(k)] = inputs[static_cast<std::size_t>(k)].data();
  }
  const ReduceJob job{in.data(),  out.data(),  c.inputs,    c.outputs,
                      c.count,    c.dtype,     c.op,        c.op == ReduceOp::average ? c.inputs : 1,
                      c.prescale, c.postscale, c.streaming, static_cast<int>(c.count % 3) - 1};  // near: 0, 1 or none
  std::vector<std::byte> expected(bytes);
  for (std::size_t i = 0; i < c.count; ++i) {
    is_floating(c.dtype) ? reference_float(job, i * size, &expected[i * size])
                         : reference_integer(job, i * size, &expected[i * size]);
  }
  kernels.reduce(job);
  for (std::byte* result : out) {
    for (std::size_t i = 0; i < c.count; ++i) {
      ASSERT_TRUE(same(result + i * size, &expected[i * size], c.dtype))
          << kernels.name << ' ' << c << " element " << i;
    }
  }
  for (const auto* guards : {&inputs, &outputs}) {
    for (const Guarded& guarded : *guards) ASSERT_TRUE(guarded.intact()) << kernels.name << ' ' << c;
  }
}

class Reduce : public testing::TestWithParam<const HostKernels*> {};
INSTANTIATE_TEST_SUITE_P(Each, Reduce, testing::ValuesIn(usable_kernels()),
                         [](const auto& suite) { return std::string(suite.param->name); });

TEST_P(Reduce, EveryTypeAndOperationAtOddSizesAndPlaces) {
  for (const DType dtype : kAllTypes) {
    for (const ReduceOp op : kAllOps) {
      for (const std::size_t count : {0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 129, 1000}) {
        for (const std::size_t misalignment : {std::size_t{0}, size_of(dtype), std::size_t{1}, std::size_t{60}}) {
          for (const bool streaming : {false, true}) {
            check(*GetParam(), {dtype, op, 3, 3, count, misalignment, 0, 1.0, 1.0, streaming, false});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(Reduce, EveryNumberOfInputsAndOutputs) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::product}) {
      for (const int inputs : {1, 2, 3, 4, 5, 8, 16}) {
        for (const int outputs : {1, 2, inputs}) {
          for (const bool streaming : {false, true}) {
            check(*GetParam(), {dtype, op, inputs, outputs, 517, 8, 0, 1.0, 1.0, streaming, false});
            check(*GetParam(), {dtype, op, inputs, outputs, 517, 8, size_of(dtype), 1.0, 1.0, streaming, true});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Long enough to be fetched ahead, if near: all but the first output, all but the second, none.
TEST_P(Reduce, EveryPlaceToBeNear) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const int ranks : {2, 4, 8}) {
      for (const std::size_t count : {5122, 5123, 5124}) {
        check(*GetParam(), {dtype, ReduceOp::sum, ranks, ranks, count, 4, 0, 1.0, 1.0, false, true});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Reduce, ScalesBeforeAndAfter) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const ReduceOp op : kAllOps) {
      for (const int inputs : {2, 3, 4}) {
        for (const double prescale : {1.0, 0.5, 0.3}) {
          for (const double postscale : {1.0, 0.1, 8.0}) {
            check(*GetParam(), {dtype, op, inputs, inputs, 301, 0, 0, prescale, postscale, true, false});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(Reduce, NaNOfAnyInputIsTheResult) {
  for (const ReduceOp op : kAllOps) {
    for (std::size_t k = 0; k < 3; ++k) {
      float values[3][40];
      for (auto& row : values) std::fill(std::begin(row), std::end(row), 2.0f);
      values[k][5] = values[k][39] = std::numeric_limits<float>::quiet_NaN();
      const std::byte* in[] = {reinterpret_cast<std::byte*>(values[0]), reinterpret_cast<std::byte*>(values[1]),
                               reinterpret_cast<std::byte*>(values[2])};
      float result[40];
      std::byte* out[] = {reinterpret_cast<std::byte*>(result)};
      GetParam()->reduce({in, out, 3, 1, 40, DType::f32, op, 1, 1.0, 1.0, false, -1});
      EXPECT_TRUE(std::isnan(result[5]) && std::isnan(result[39])) << name_of(op);
      EXPECT_FALSE(std::isnan(result[4])) << name_of(op);
    }
  }
}

TEST_P(Reduce, AverageOfEqualIntegersIsExact) {
  const std::int8_t value = -101;  // three of them do not fit in 8 bits
  std::vector<std::int8_t> input(77, value), result(77);
  const std::byte* one = reinterpret_cast<const std::byte*>(input.data());
  const std::byte* in[] = {one, one, one};
  std::byte* out[] = {reinterpret_cast<std::byte*>(result.data())};
  GetParam()->reduce({in, out, 3, 1, 77, DType::i8, ReduceOp::average, 3, 1.0, 1.0, false, -1});
  EXPECT_EQ(result, input);
}

TEST(ReduceArguments, AreChecked) {
  std::byte cell[8] = {};
  const std::byte* in[] = {cell};
  std::byte* out[] = {cell};
  EXPECT_THROW(reduce({{}, out, 1}), UsageError);
  EXPECT_THROW(reduce({in, out, 1, DType::f32, ReduceOp::sum, 2}), UsageError);
  EXPECT_THROW(reduce({in, out, 1, DType::f32, ReduceOp::average, 0}), UsageError);
  EXPECT_THROW(reduce({in, out, 1, DType::i32, ReduceOp::sum, 1, 0.5}), UsageError);
  EXPECT_NO_THROW(reduce({in, out, 1}));
}

}  // namespace
}  // namespace kolo::kernels::test

// What `kolo perf` takes for right is what kolo's kernels make of its inputs, whichever way they are cut.
#include "perf_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/reduce.h"
#include "kolo/error.h"

namespace kolo::tools {
namespace {

constexpr std::size_t kElements = 61;
using Bytes = std::vector<std::byte>;

Bytes operand(const Reduction& reduction, Rank rank, int iteration) {
  Bytes bytes(kElements * size_of(reduction.dtype));
  Pattern::operand(reduction, kElements, rank, iteration).fill(bytes);
  return bytes;
}

void combine(const Reduction& reduction, ReduceOp op, std::span<const std::byte* const> inputs, Bytes& output) {
  kernels::ReduceArguments arguments;
  std::byte* const outputs[] = {output.data()};
  arguments.inputs = inputs;
  arguments.outputs = outputs;
  arguments.count = kElements;
  arguments.dtype = reduction.dtype;
  arguments.op = op;
  arguments.divisor = op == ReduceOp::average ? reduction.ranks : 1;
  kernels::reduce(arguments);
}

// One rank after the other, each partial result in the type itself: the worst that an algorithm does.
Bytes one_by_one(const Reduction& reduction, int iteration) {
  Bytes sum = operand(reduction, 0, iteration);
  for (Rank r = 1; r < reduction.ranks; ++r) {
    const Bytes next = operand(reduction, r, iteration);
    combine(reduction, reduction.op, std::array<const std::byte*, 2>{sum.data(), next.data()}, sum);
  }
  return sum;
}

// Averages of booleans are and; those of integers are formed in 64 bits, and so all at once.
Bytes at_once(const Reduction& reduction, int iteration) {
  std::vector<Bytes> all;
  std::vector<const std::byte*> inputs;
  for (Rank r = 0; r < reduction.ranks; ++r) all.push_back(operand(reduction, r, iteration));
  for (const Bytes& one : all) inputs.push_back(one.data());
  Bytes output(all[0].size());
  const bool boolean = reduction.dtype == DType::boolean && reduction.op == ReduceOp::average;
  combine(reduction, boolean ? ReduceOp::min : reduction.op, inputs, output);
  return output;
}

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                            DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
constexpr ReduceOp kOperations[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};

TEST(PerfData, RightResultsAreRightInEveryTypeWithEveryOperation) {
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kOperations) {
      for (const int ranks : {1, 2, 3, 5, 6, 8, 12, 16, 33, 41, 49, 64}) {
        const Reduction reduction{dtype, op, ranks};
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::string(name_of(op)) + ", ranks " + std::to_string(ranks));
        ASSERT_NO_THROW(check_exact(reduction));
        const Pattern expected = Pattern::reduced(reduction, kElements, 7);
        EXPECT_EQ(expected.count_wrong(at_once(reduction, 7)), 0U);
        if (op == ReduceOp::average) continue;
        EXPECT_EQ(expected.count_wrong(one_by_one(reduction, 7)), 0U);
      }
    }
  }
}

TEST(PerfData, SumsOfManyRanksAreExactOrRefused) {
  for (const auto& [dtype, most] : {std::pair{DType::bf16, 64}, std::pair{DType::f16, 512}}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      EXPECT_NO_THROW(check_exact({dtype, op, most}));
      EXPECT_THAT(
          [&] {
            check_exact({dtype, op, most + 1});
          },
          testing::ThrowsMessage<UsageError>(testing::HasSubstr("up to " + std::to_string(most) + " ranks")));
    }
    const Reduction sum{dtype, ReduceOp::sum, most};
    EXPECT_EQ(Pattern::reduced(sum, kElements, 0).count_wrong(one_by_one(sum, 0)), 0U);
    const Reduction product{dtype, ReduceOp::product, 2000};
    EXPECT_NO_THROW(check_exact(product));
    EXPECT_EQ(Pattern::reduced(product, kElements, 3).count_wrong(one_by_one(product, 3)), 0U);
  }
}

// Else a rank that is left out would not be noticed.
TEST(PerfData, EveryRankCounts) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product}) {
    constexpr int kRanks = 7;
    for (Rank without = 1; without < kRanks; ++without) {
      const Reduction reduction{DType::f32, op, kRanks};
      Bytes sum = operand(reduction, 0, 0);
      for (Rank r = 1; r < kRanks; ++r) {
        const Bytes next = operand(reduction, r, 0);
        if (r != without) combine(reduction, op, std::array<const std::byte*, 2>{sum.data(), next.data()}, sum);
      }
      EXPECT_GT(Pattern::reduced(reduction, kElements, 0).count_wrong(sum), 0U) << name_of(op) << ", rank " << without;
    }
  }
}

}  // namespace
}  // namespace kolo::tools

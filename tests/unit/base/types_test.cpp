#include "kolo/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kolo/error.h"

namespace kolo {
namespace {

TEST(Types, NamesAreReadBack) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  for (int i = 0; i <= static_cast<int>(ReduceOp::product); ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(name_of(op)), op);
  }
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(ReduceOp::average), "average");
}

TEST(Types, Sizes) {
  const std::size_t sizes[] = {4, 8, 2, 2, 1, 1, 2, 4, 8, 1};
  for (std::size_t i = 0; i < std::size(sizes); ++i) EXPECT_EQ(size_of(static_cast<DType>(i)), sizes[i]);
}

TEST(Types, UnknownNamesListTheKnown) {
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_THAT(message([] { (void)parse_dtype("float"); }),
              testing::AllOf(testing::HasSubstr("'float'"), testing::HasSubstr("f32"), testing::HasSubstr("bool")));
  EXPECT_THAT(message([] { (void)parse_reduce_op("avg"); }),
              testing::AllOf(testing::HasSubstr("'avg'"), testing::HasSubstr("average")));
}

}  // namespace
}  // namespace kolo

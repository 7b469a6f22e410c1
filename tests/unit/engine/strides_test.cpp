#include "kolo/spi/strides.h"

#include <gmock/gmock.h>

namespace kolo {
namespace {

using Numbers = std::vector<std::int64_t>;
using testing::ElementsAre;

TEST(CanonicalStrides, EmptyStridesAreContiguous) {
  EXPECT_THAT(canonical_strides(Numbers{2, 3, 4}, Numbers{}), ElementsAre(12, 4, 1));
  EXPECT_THAT(canonical_strides(Numbers{}, Numbers{}), ElementsAre());
}

TEST(CanonicalStrides, DimensionsOfSizeOneDoNotMatter) {
  const auto channels_last = canonical_strides(Numbers{8, 8, 1, 1}, Numbers{8, 1, 8, 8});
  EXPECT_EQ(channels_last, canonical_strides(Numbers{8, 8, 1, 1}, Numbers{}));
  EXPECT_EQ(canonical_strides(Numbers{1, 4, 5}, Numbers{20, 1, 4}),
            canonical_strides(Numbers{1, 4, 5}, Numbers{-7, 1, 4}));
  EXPECT_EQ(canonical_strides(Numbers{1, 1}, Numbers{99, 0}), canonical_strides(Numbers{1, 1}, Numbers{}));
}

TEST(CanonicalStrides, AllStridesOfATensorWithoutElementsAreEqual) {
  EXPECT_EQ(canonical_strides(Numbers{3, 0, 2}, Numbers{1, 7, 9}), canonical_strides(Numbers{3, 0, 2}, Numbers{}));
}

TEST(CanonicalStrides, OtherOrdersOfDimensionsDiffer) {
  EXPECT_NE(canonical_strides(Numbers{2, 3}, Numbers{1, 2}), canonical_strides(Numbers{2, 3}, Numbers{}));
}

TEST(IsDense, TrueForAnyOrderOfDimensions) {
  EXPECT_TRUE(is_dense(Numbers{2, 3, 4}, Numbers{}));
  EXPECT_TRUE(is_dense(Numbers{2, 3, 4}, Numbers{12, 4, 1}));
  EXPECT_TRUE(is_dense(Numbers{2, 3, 4}, Numbers{1, 2, 6}));
  EXPECT_TRUE(is_dense(Numbers{2, 3, 4}, Numbers{4, 8, 1}));
  EXPECT_TRUE(is_dense(Numbers{2, 1, 4}, Numbers{4, 99, 1}));
  EXPECT_TRUE(is_dense(Numbers{2, 0}, Numbers{5, 5}));
}

TEST(IsDense, FalseForGapsZerosAndOverlap) {
  EXPECT_FALSE(is_dense(Numbers{8}, Numbers{2}));
  EXPECT_FALSE(is_dense(Numbers{8}, Numbers{0}));
  EXPECT_FALSE(is_dense(Numbers{8}, Numbers{-1}));
  EXPECT_FALSE(is_dense(Numbers{3, 3}, Numbers{1, 1}));
  EXPECT_FALSE(is_dense(Numbers{4, 4}, Numbers{5, 1}));
  EXPECT_FALSE(is_dense(Numbers{2, 2}, Numbers{1, 1}));
}

}  // namespace
}  // namespace kolo

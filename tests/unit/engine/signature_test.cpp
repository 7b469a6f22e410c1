#include "engine/signature.h"

#include <gmock/gmock.h>

namespace kolo::engine {
namespace {

using testing::HasSubstr;

TEST(Signature, NamesWhatDiffersWithBothValuesAndRanks) {
  Conflict conflict{{}, 0, {}, 3};
  conflict.first.sizes = {2, 3};
  conflict.second.sizes = {3, 2};
  conflict.second.dtype = DType::f64;
  const auto text = describe("loss", conflict);
  EXPECT_THAT(text, HasSubstr("'loss'"));
  EXPECT_THAT(text, HasSubstr("shape [2, 3] on rank 0, [3, 2] on rank 3"));
  EXPECT_THAT(text, HasSubstr("dtype f32 on rank 0, f64 on rank 3"));
}

TEST(Signature, AllgathersMayDifferInTheirFirstSizeOnly) {
  Signature a{.kind = Kind::allgather, .sizes = {2, 3}, .strides = {}, .table = {}};
  Signature b = a;
  b.sizes = {9, 3};
  EXPECT_TRUE(agree(a, b));
  b.sizes = {9, 4};
  EXPECT_FALSE(agree(a, b));
  a.kind = b.kind = Kind::allreduce;
  b.sizes = {9, 3};
  EXPECT_FALSE(agree(a, b));
}

TEST(Signature, StridesOfDimensionsOfSizeOneAgree) {
  Request one;
  one.sizes = {1, 4, 5};
  one.strides = {20, 1, 4};
  Request other = one;
  other.strides = {1, 1, 4};
  EXPECT_EQ(signature_of(one), signature_of(other));
  one.strides = {};
  other.strides = {3, 5, 1};
  EXPECT_EQ(signature_of(one), signature_of(other));
  other.strides = {20, 1, 4};
  EXPECT_NE(signature_of(one), signature_of(other));
}

TEST(Signature, RowsOfATableWithStridesOfSizeOneAgree) {
  const std::vector<GradientInfo> one{{"w", {8, 8, 1, 1}, {8, 1, 8, 8}, DType::f32}};
  const std::vector<GradientInfo> other{{"w", {8, 8, 1, 1}, {8, 1, 1, 1}, DType::f32}};
  EXPECT_EQ(table_text(one, {}), table_text(other, {}));
}

TEST(Signature, AllgathersAgreeIfTheInnerDimensionsLieAlike) {
  Request one;
  one.kind = RequestKind::allgather;
  one.sizes = {1, 3, 4};
  one.strides = {12, 1, 3};
  Request other = one;
  other.sizes = {5, 3, 4};
  EXPECT_TRUE(agree(signature_of(one), signature_of(other)));
  other.sizes = {0, 3, 4};
  EXPECT_TRUE(agree(signature_of(one), signature_of(other)));
  other.sizes = {5, 3, 4};
  other.strides = {};
  EXPECT_FALSE(agree(signature_of(one), signature_of(other)));
}

TEST(Signature, NamesStridesThatDiffer) {
  Request one;
  one.sizes = {4, 2};
  Request other = one;
  other.strides = {1, 4};
  EXPECT_THAT(describe("x", {signature_of(one), 0, signature_of(other), 1}),
              HasSubstr("strides [2, 1] on rank 0, [1, 4] on rank 1"));
}

TEST(Signature, ANameCannotMakeUpARow) {
  const std::vector<GradientInfo> one{{"a: f32 sizes [1] strides [1]\ntensor b", {2}, {1}, DType::f32}};
  const std::vector<GradientInfo> two{{"a", {1}, {1}, DType::f32}, {"b", {2}, {1}, DType::f32}};
  EXPECT_NE(table_text(one, {}), table_text(two, {}));
  const std::vector<GradientInfo> escaped{{"a\\n", {}, {}, DType::f32}};
  const std::vector<GradientInfo> broken{{"a\n", {}, {}, DType::f32}};
  EXPECT_NE(table_text(escaped, {}), table_text(broken, {}));
}

TEST(Signature, TableDifferencesNameTheTensor) {
  const std::vector<GradientInfo> two{{"a", {1}, {1}, DType::f32}, {"b", {2}, {1}, DType::f32}};
  auto three = two;
  three.push_back({"new.weight", {5}, {1}, DType::f32});
  Conflict conflict{{}, 0, {}, 1};
  conflict.first.table = table_text(two, {});
  conflict.second.table = table_text(three, {});
  EXPECT_THAT(describe("gradients/0", conflict), HasSubstr("tensor new.weight exists on rank 1 but not on rank 0"));

  auto other = two;
  other[1].strides = {2};
  conflict.second.table = table_text(other, {});
  EXPECT_THAT(describe("gradients/0", conflict), HasSubstr("strides [2]"));
}

std::string settings_difference(const std::string& first, const std::string& second) {
  Conflict conflict{{}, 0, {}, 2};
  conflict.first.table = table_text({}, {.settings = first});
  conflict.second.table = table_text({}, {.settings = second});
  return describe("gradients/0", conflict);
}

TEST(Signature, SettingsDifferencesNameOnlyWhatDiffers) {
  EXPECT_EQ(settings_difference("lr=1, momentum=0.9", "lr=1, momentum=0.8"),
            "ranks disagree on 'gradients/0': settings are \"momentum=0.9\" on rank 0 and \"momentum=0.8\" on rank 2");
  EXPECT_THAT(settings_difference("lr=1, a, b", "lr=1, a"),
              HasSubstr("settings are \"b\" on rank 0 and not on rank 2"));
  EXPECT_THAT(settings_difference("lr=1", "lr=1, a"), HasSubstr("settings are \"a\" on rank 2 and not on rank 0"));
  EXPECT_THAT(settings_difference("a", "a, a"), HasSubstr("a\" on rank 0"));  // the same once more
  std::string many = "lr=1";
  for (int i = 0; i < 20; ++i) many += ", missing " + std::to_string(i);
  EXPECT_THAT(settings_difference(many, "lr=1"), HasSubstr("missing 7 and 12 more\" on rank 0 and not on rank 2"));
}

}  // namespace
}  // namespace kolo::engine

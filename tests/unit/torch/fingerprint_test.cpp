#include "torch/fingerprint.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>
#include <set>

namespace kolo {
namespace {

TEST(Fingerprint, DependsOnEveryElement) {
  const at::Tensor values = torch::arange(1000, torch::kFloat32);
  EXPECT_EQ(fingerprint(values), fingerprint(values.clone()));
  std::set<std::uint64_t> seen = {fingerprint(values)};
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    at::Tensor other = values.clone();
    other[i] += 0.5;
    EXPECT_TRUE(seen.insert(fingerprint(other)).second) << i;
  }
}

TEST(Fingerprint, IgnoresStridesAndRequiresGrad) {
  const at::Tensor wide = torch::arange(24, torch::kFloat32).view({2, 3, 4});
  const at::Tensor gaps = wide.select(2, 1);
  const at::Tensor packed = gaps.contiguous();
  EXPECT_EQ(fingerprint(gaps), fingerprint(packed));
  EXPECT_NE(fingerprint(gaps), fingerprint(wide.select(2, 2)));
  EXPECT_EQ(fingerprint(gaps.clone().set_requires_grad(true)), fingerprint(gaps));
}

TEST(Fingerprint, OfEmptyTensorEqualsThatOfEmptyString) {
  EXPECT_EQ(fingerprint(torch::empty({0, 3})), fingerprint(std::string_view()));
}

// NaNs with equal bits are equal.
TEST(Fingerprint, DistinguishesBitsAndNotValues) {
  EXPECT_NE(fingerprint(torch::full({1}, 0.0F)), fingerprint(torch::full({1}, -0.0F)));
  const at::Tensor no_number = torch::full({1}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(fingerprint(no_number), fingerprint(no_number.clone()));
}

}  // namespace
}  // namespace kolo

#include "torch/gradient_slot.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "torch/parameter_table.h"

namespace kolo {
namespace {

// The result of another optimizer may lie where the contributed tensor was.
TEST(GradientSlot, NewTensorAtSameAddressIsNotReportedAsChanged) {
  const at::Tensor weight = torch::ones({4}).requires_grad_(true);
  GradientSlot slot(weight, describe_gradient({"weight", weight}));
  std::vector<float> result(4, 1.0F);
  for (int time = 0; time < 20; ++time) {
    weight.mutable_grad() = torch::ones({4});
    weight.mutable_grad().add_(1);
    slot.remember_contribution();
    EXPECT_FALSE(slot.changed_since_contribution());
    weight.mutable_grad().reset();
    weight.mutable_grad() = at::from_blob(result.data(), {4});
    EXPECT_FALSE(slot.changed_since_contribution());
  }
}

}  // namespace
}  // namespace kolo

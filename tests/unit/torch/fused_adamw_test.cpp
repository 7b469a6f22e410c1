#include "kolo/torch/fused_optimizers.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <sstream>

#include "kolo/error.h"
#include "unit/torch/side_by_side.h"

namespace {

using torch::optim::AdamWOptions;

double difference(const AdamWOptions& options, at::ScalarType type, int steps = 20) {
  return kolo::test::difference<kolo::FusedAdamW, torch::optim::AdamW>(options, type, steps);
}

TEST(FusedAdamW, ResultsEqualTorchUpToRounding) {
  const AdamWOptions options[] = {AdamWOptions(1e-2), AdamWOptions(1e-2).weight_decay(0),
                                  AdamWOptions(3e-3).betas({0.8, 0.95}).eps(1e-4).weight_decay(0.3)};
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const AdamWOptions& each : options) {
      EXPECT_LT(difference(each, torch::kFloat32), 2e-6) << each.lr() << ' ' << threads;
      EXPECT_LT(difference(each, torch::kFloat64), 1e-14) << each.lr() << ' ' << threads;
    }
  }
  at::set_num_threads(1);
}

TEST(FusedAdamW, Bf16ResultsEqualTorchUpToRounding) {
  EXPECT_LT(difference(AdamWOptions(1e-2), torch::kBFloat16, 5), 5e-2);
}

TEST(FusedAdamW, SavedStateLoadsIntoTorchAdamWAndBack) {
  at::Tensor a = torch::zeros({4});
  kolo::FusedAdamW fused({a}, AdamWOptions(0.1));
  a.mutable_grad() = torch::arange(4, torch::kFloat32);
  fused.step();
  const auto hand_over = [](auto& to, const auto& from) {
    std::stringstream bytes;
    torch::save(from, bytes);
    torch::load(to, bytes);
  };
  at::Tensor b = a.clone(), c = a.clone();
  torch::optim::AdamW plain({b}, AdamWOptions(0.7));
  kolo::FusedAdamW back({c}, AdamWOptions(0.7));
  hand_over(plain, fused);
  hand_over(back, plain);
  b.mutable_grad() = a.grad().clone();
  c.mutable_grad() = a.grad().clone();
  fused.step();
  plain.step();
  back.step();
  EXPECT_TRUE(torch::allclose(a, b, 1e-6, 0));
  EXPECT_TRUE(torch::equal(a, c));
  EXPECT_DOUBLE_EQ(static_cast<AdamWOptions&>(plain.param_groups()[0].options()).lr(), 0.1);
}

TEST(FusedAdamW, AppliesGradientScaleAndLeavesGradientUnchanged) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    at::Tensor a = torch::ones({4}, type), b = torch::ones({4}, type);
    kolo::FusedAdamW scaled({a}, AdamWOptions(0.1)), plain({b}, AdamWOptions(0.1));
    a.mutable_grad() = torch::arange(4, type) * 8;
    b.mutable_grad() = torch::arange(4, type);
    scaled.set_gradient_scale(0.125);
    scaled.step();
    plain.step();
    EXPECT_TRUE(torch::equal(a, b)) << type;
    EXPECT_EQ(a.grad()[1].item<double>(), 8);
  }
}

TEST(FusedAdamW, AmsgradAndSparseGradientAreUsageError) {
  at::Tensor a = torch::zeros({4});
  a.mutable_grad() = torch::ones({4});
  EXPECT_THROW(kolo::FusedAdamW({a}, AdamWOptions(0.1).amsgrad(true)).step(), kolo::UsageError);
  EXPECT_TRUE(torch::equal(a, torch::zeros({4})));
  a.mutable_grad() = torch::ones({4}).to_sparse();
  EXPECT_THROW(kolo::FusedAdamW({a}, AdamWOptions(0.1)).step(), kolo::UsageError);
}

TEST(FusedAdamW, StepOmitsWeightsThatWereUpdatedEarly) {
  kolo::test::expect_early_updates_are_left_out_of_the_step<kolo::FusedAdamW>(AdamWOptions(1e-2));
  kolo::test::expect_forgotten_updates_are_made_again<kolo::FusedAdamW>(AdamWOptions(1e-2));
}

TEST(FusedAdamW, StepThatThrowsKeepsEarlyUpdates) {
  at::Tensor a = torch::ones({4}), b = torch::ones({4});
  kolo::test::Opened<kolo::FusedAdamW> one({a}, AdamWOptions(0.1));
  kolo::FusedAdamW plain({b}, AdamWOptions(0.1));
  one.add_param_group(torch::optim::OptimizerParamGroup({torch::ones({2})}));
  a.mutable_grad() = torch::ones({4});
  b.mutable_grad() = torch::ones({4});
  one.update_early(a);
  auto& options = static_cast<AdamWOptions&>(one.param_groups()[1].options());
  options.amsgrad(true);
  EXPECT_THROW(one.step(), kolo::UsageError);
  options.amsgrad(false);
  one.step();
  plain.step();
  EXPECT_TRUE(torch::equal(a, b));
}

TEST(FusedAdamW, WeightsThatShareMemoryAreNotUpdatedEarly) {
  kolo::test::expect_weights_that_share_memory_are_not_updated_early<kolo::FusedAdamW>(AdamWOptions(1e-2));
}

TEST(FusedAdamW, UpdateIsSeenByAutograd) {
  kolo::test::expect_writes_are_seen_by_autograd<kolo::FusedAdamW>(AdamWOptions(0.1));
}

TEST(FusedAdamW, ClosureRunsWithGradientsEnabled) {
  const at::Tensor a = kolo::test::step_with_closure<kolo::FusedAdamW>(AdamWOptions(0.5).weight_decay(0));
  EXPECT_TRUE(torch::allclose(a, torch::full({4}, 0.5)));
}

}  // namespace

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <limits>
#include <sstream>

#include "kolo/torch/fused_optimizers.h"
#include "unit/torch/side_by_side.h"

namespace {

using torch::optim::SGDOptions;

double difference(const SGDOptions& options, at::ScalarType type, int steps = 5) {
  return kolo::test::difference<kolo::FusedSGD, torch::optim::SGD>(options, type, steps);
}

TEST(FusedSGD, InfiniteWeightIsUpdatedAsByTorch) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double momentum : {0.0, 0.9}) {
    for (const double decay : {0.0, 0.5}) {
      const auto options = SGDOptions(0.1).momentum(momentum).weight_decay(decay);
      at::Tensor ours = torch::tensor({infinity, 1.0});
      at::Tensor theirs = ours.clone();
      kolo::FusedSGD fused({ours}, options);
      torch::optim::SGD plain({theirs}, options);
      for (int step = 0; step < 2; ++step) {
        ours.mutable_grad() = torch::ones({2}, ours.options());
        theirs.mutable_grad() = ours.grad().clone();
        fused.step();
        plain.step();
        EXPECT_TRUE(torch::allclose(ours, theirs, 1e-6, 1e-6, /*equal_nan=*/true)) << ours << theirs;
      }
      EXPECT_EQ(ours[0].item<double>() == infinity, decay == 0);
    }
  }
}

TEST(FusedSGD, ResultsEqualTorchUpToRounding) {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const double momentum : {0.0, 0.9}) {
      for (const double decay : {0.0, 1e-2}) {
        for (const bool nesterov : {false, true}) {
          if (nesterov && momentum == 0) continue;
          const auto options = SGDOptions(0.1).momentum(momentum).weight_decay(decay).nesterov(nesterov);
          EXPECT_LT(difference(options, torch::kFloat32), 1e-6) << momentum << decay << nesterov << threads;
          EXPECT_LT(difference(options, torch::kFloat64), 1e-14) << momentum << decay << nesterov << threads;
        }
      }
    }
    EXPECT_LT(difference(SGDOptions(0.1).momentum(0.9).dampening(0.3), torch::kFloat64), 1e-14);
  }
  at::set_num_threads(1);
}

TEST(FusedSGD, Bf16ResultsEqualTorchUpToRounding) {
  EXPECT_LT(difference(SGDOptions(0.1).momentum(0.9), torch::kBFloat16), 5e-2);
}

TEST(FusedSGD, GroupsHaveTheirOwnOptions) {
  at::Tensor a = torch::ones({4});
  at::Tensor b = torch::ones({4});
  torch::optim::OptimizerParamGroup slow({a}, std::make_unique<SGDOptions>(0.25));
  torch::optim::OptimizerParamGroup fast({b});
  kolo::FusedSGD fused({slow, fast}, SGDOptions(0.5));
  a.mutable_grad() = torch::ones({4});
  b.mutable_grad() = torch::ones({4});
  fused.step();
  EXPECT_TRUE(torch::equal(a, torch::full({4}, 0.75)));
  EXPECT_TRUE(torch::equal(b, torch::full({4}, 0.5)));
}

TEST(FusedSGD, SavedStateLoadsIntoTorchSGD) {
  const auto options = SGDOptions(0.1).momentum(0.9);
  at::Tensor a = torch::zeros({4});
  kolo::FusedSGD fused({a}, options);
  a.mutable_grad() = torch::arange(4, torch::kFloat32);
  fused.step();
  std::stringstream bytes;
  torch::save(fused, bytes);
  at::Tensor b = a.clone();
  torch::optim::SGD plain({b}, SGDOptions(0.7));
  torch::load(plain, bytes);
  b.mutable_grad() = a.grad().clone();
  fused.step();
  plain.step();
  EXPECT_TRUE(torch::allclose(a, b, 1e-6, 0));
  EXPECT_DOUBLE_EQ(static_cast<SGDOptions&>(plain.param_groups()[0].options()).lr(), 0.1);
}

TEST(FusedSGD, StepOmitsWeightsThatWereUpdatedEarly) {
  kolo::test::expect_early_updates_are_left_out_of_the_step<kolo::FusedSGD>(
      SGDOptions(0.1).momentum(0.9).weight_decay(1e-2));
  kolo::test::expect_forgotten_updates_are_made_again<kolo::FusedSGD>(SGDOptions(0.1).momentum(0.9).weight_decay(1e-2));
}

TEST(FusedSGD, WeightsThatShareMemoryAreNotUpdatedEarly) {
  kolo::test::expect_weights_that_share_memory_are_not_updated_early<kolo::FusedSGD>(SGDOptions(0.1));
}

TEST(FusedSGD, UpdateIsSeenByAutograd) {
  kolo::test::expect_writes_are_seen_by_autograd<kolo::FusedSGD>(SGDOptions(0.1));
}

TEST(FusedSGD, ClosureRunsWithGradientsEnabled) {
  const at::Tensor a = kolo::test::step_with_closure<kolo::FusedSGD>(SGDOptions(0.5));
  EXPECT_TRUE(torch::equal(a, torch::full({4}, 0.5)));
}

}  // namespace

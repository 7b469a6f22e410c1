#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <limits>
#include <sstream>

#include "kolo/torch/fused_sgd.h"

namespace {

using torch::optim::SGDOptions;

std::vector<at::Tensor> make_parameters(at::ScalarType type) {
  torch::manual_seed(3);
  return {torch::randn({1037}).to(type), torch::randn({3, 5, 7, 7}).to(type).contiguous(at::MemoryFormat::ChannelsLast),
          torch::randn({300, 301}).to(type), torch::randn({2, 3}).to(type).t()};
}

// Steps torch's SGD and ours side by side on equal gradients; returns the largest relative difference.
double difference(SGDOptions options, at::ScalarType type, int steps = 5) {
  auto ours = make_parameters(type);
  auto theirs = make_parameters(type);
  kolo::FusedSGD fused(ours, options);
  torch::optim::SGD plain(theirs, options);
  double worst = 0;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (step == 1 && i == 0) {
        ours[i].mutable_grad() = theirs[i].mutable_grad() = at::Tensor();
        continue;
      }
      const at::Tensor gradient = torch::randn(ours[i].sizes()).to(type);
      ours[i].mutable_grad() = i == 3 ? gradient.clone() : torch::empty_like(ours[i]).copy_(gradient);
      theirs[i].mutable_grad() = gradient.clone();
    }
    fused.step();
    plain.step();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto relative = (ours[i] - theirs[i]).abs() / (theirs[i].abs() + 1);
      worst = std::max(worst, relative.max().item<double>());
    }
  }
  return worst;
}

TEST(FusedSGD, AnInfiniteWeightWithoutDecayStaysInfinite) {
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

TEST(FusedSGD, GivesTheNumbersOfTorch) {
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

TEST(FusedSGD, OtherTypesTakeTheGenericWay) {
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

TEST(FusedSGD, StateIsSavedAndLoadsIntoTorchsOwn) {
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

TEST(FusedSGD, WritesAreSeenByAutograd) {
  at::Tensor a = torch::ones({4}).requires_grad_(true);
  kolo::FusedSGD fused({a}, SGDOptions(0.1));
  const at::Tensor loss = (a * a).sum();
  a.mutable_grad() = torch::ones({4});
  fused.step();
  EXPECT_THROW(loss.backward(), c10::Error);  // a was changed in place since it was saved for backward
}

TEST(FusedSGD, TheClosureRunsWithGradients) {
  at::Tensor a = torch::ones({4}).requires_grad_(true);
  kolo::FusedSGD fused({a}, SGDOptions(0.5));
  const at::Tensor loss = fused.step([&] {
    at::Tensor value = a.sum();
    value.backward();
    return value;
  });
  EXPECT_DOUBLE_EQ(loss.item<double>(), 4);
  EXPECT_TRUE(torch::equal(a.detach(), torch::full({4}, 0.5)));
}

}  // namespace

#include "kolo/torch/fused_adamw.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <sstream>

#include "kolo/error.h"

namespace {

using torch::optim::AdamWOptions;

std::vector<at::Tensor> make_parameters(at::ScalarType type) {
  torch::manual_seed(3);
  return {torch::randn({1037}).to(type), torch::randn({3, 5, 7, 7}).to(type).contiguous(at::MemoryFormat::ChannelsLast),
          torch::randn({300, 301}).to(type), torch::randn({2, 3}).to(type).t()};
}

// Steps torch's AdamW and ours side by side on equal gradients; returns the largest relative difference. One gradient
// is missing once, another comes in another layout.
double difference(const AdamWOptions& options, at::ScalarType type, int steps = 20) {
  auto ours = make_parameters(type);
  auto theirs = make_parameters(type);
  kolo::FusedAdamW fused(ours, options);
  torch::optim::AdamW plain(theirs, options);
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
    fused.param_groups()[0].options().set_lr(options.lr() * (1 - 0.01 * step));
    plain.param_groups()[0].options().set_lr(options.lr() * (1 - 0.01 * step));
    fused.step();
    plain.step();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto relative = (ours[i] - theirs[i]).abs() / (theirs[i].abs() + 1);
      worst = std::max(worst, relative.max().item<double>());
    }
  }
  return worst;
}

TEST(FusedAdamW, GivesTheNumbersOfTorch) {
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

TEST(FusedAdamW, OtherTypesTakeTheGenericWay) { EXPECT_LT(difference(AdamWOptions(1e-2), torch::kBFloat16, 5), 5e-2); }

TEST(FusedAdamW, StateIsSavedAndLoadsIntoTorchsOwnAndBack) {
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

// Of whatever kind a tensor is; the gradient itself stays.
TEST(FusedAdamW, TakesAScaleOutOfGradientsInPassing) {
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

TEST(FusedAdamW, RefusesWhatItDoesNotHave) {
  at::Tensor a = torch::zeros({4});
  a.mutable_grad() = torch::ones({4});
  EXPECT_THROW(kolo::FusedAdamW({a}, AdamWOptions(0.1).amsgrad(true)).step(), kolo::UsageError);
  EXPECT_TRUE(torch::equal(a, torch::zeros({4})));
  a.mutable_grad() = torch::ones({4}).to_sparse();
  EXPECT_THROW(kolo::FusedAdamW({a}, AdamWOptions(0.1)).step(), kolo::UsageError);
}

TEST(FusedAdamW, WritesAreSeenByAutograd) {
  at::Tensor a = torch::ones({4}).requires_grad_(true);
  kolo::FusedAdamW fused({a}, AdamWOptions(0.1));
  const at::Tensor loss = (a * a).sum();
  a.mutable_grad() = torch::ones({4});
  fused.step();
  EXPECT_THROW(loss.backward(), c10::Error);  // a was changed in place since it was saved for backward
}

TEST(FusedAdamW, TheClosureRunsWithGradients) {
  at::Tensor a = torch::ones({4}).requires_grad_(true);
  kolo::FusedAdamW fused({a}, AdamWOptions(0.5).weight_decay(0));
  const at::Tensor loss = fused.step([&] {
    at::Tensor value = a.sum();
    value.backward();
    return value;
  });
  EXPECT_DOUBLE_EQ(loss.item<double>(), 4);
  EXPECT_TRUE(torch::allclose(a.detach(), torch::full({4}, 0.5)));
}

}  // namespace

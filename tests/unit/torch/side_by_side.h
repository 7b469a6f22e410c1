#pragma once
// What is asked of every optimizer of kolo's beside torch's own.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace kolo::test {

inline std::vector<at::Tensor> make_parameters(at::ScalarType type) {
  torch::manual_seed(3);
  return {torch::randn({1037}).to(type), torch::randn({3, 5, 7, 7}).to(type).contiguous(at::MemoryFormat::ChannelsLast),
          torch::randn({300, 301}).to(type), torch::randn({2, 3}).to(type).t()};
}

// Steps both on equal gradients, at a rate that changes; returns the largest relative difference. One gradient is
// missing once, another comes in another layout.
template <class Ours, class Theirs, class Options>
double difference(const Options& options, at::ScalarType type, int steps) {
  auto ours = make_parameters(type);
  auto theirs = make_parameters(type);
  Ours fused(ours, options);
  Theirs plain(theirs, options);
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

template <class Optimizer, class Options>
void expect_writes_are_seen_by_autograd(const Options& options) {
  at::Tensor a = torch::ones({4}).requires_grad_(true);
  Optimizer fused({a}, options);
  const at::Tensor loss = (a * a).sum();
  a.mutable_grad() = torch::ones({4});
  fused.step();
  EXPECT_THROW(loss.backward(), c10::Error);  // a was changed in place since it was saved for backward
}

// Four ones, whose sum's gradients are made by the closure of a step.
template <class Optimizer, class Options>
at::Tensor step_with_closure(const Options& options) {
  at::Tensor a = torch::ones({4}).requires_grad_(true);
  Optimizer fused({a}, options);
  const at::Tensor loss = fused.step([&] {
    at::Tensor value = a.sum();
    value.backward();
    return value;
  });
  EXPECT_DOUBLE_EQ(loss.item<double>(), 4);
  return a.detach();
}

}  // namespace kolo::test

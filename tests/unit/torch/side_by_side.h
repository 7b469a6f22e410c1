#pragma once
// Checks of kolo's optimizers against those of torch.
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

// Gives access to the functions that only DistributedOptimizer may call.
template <class Optimizer>
class Opened : public Optimizer {
 public:
  using Optimizer::forget_early;
  using Optimizer::Optimizer;
  using Optimizer::update_early;
};

// Two equal optimizers; one of them updates some parameters before its steps, in any order.
template <class Optimizer, class Options>
void expect_early_updates_are_left_out_of_the_step(const Options& options) {
  auto early = make_parameters(torch::kFloat32);
  auto late = make_parameters(torch::kFloat32);
  Opened<Optimizer> some({early[0], early[1]}, options);
  Optimizer all({late[0], late[1]}, options);
  some.add_param_group(torch::optim::OptimizerParamGroup({early[2], early[3]}));
  all.add_param_group(torch::optim::OptimizerParamGroup({late[2], late[3]}));
  for (int step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < early.size(); ++i) {
      const bool missing = step == 2 && i == 1;
      late[i].mutable_grad() = missing ? at::Tensor() : torch::randn_like(late[i]);
      early[i].mutable_grad() = missing ? at::Tensor() : late[i].grad().clone();
    }
    const auto before = early[3].clone();
    if (step != 1) some.update_early(early[3]);
    EXPECT_NE(torch::equal(early[3], before), step != 1);
    some.update_early(early[1]);
    some.update_early(early[1]);                                              // once is enough
    some.update_early(torch::ones({3}));                                      // a stranger
    if (step == 3) some.update_early(early[0]), some.update_early(early[2]);  // nothing is left for the step
    some.step();
    all.step();
    for (std::size_t i = 0; i < early.size(); ++i) EXPECT_TRUE(torch::equal(early[i], late[i])) << step << ' ' << i;
  }
}

// An early update that was forgotten is one more update.
template <class Optimizer, class Options>
void expect_forgotten_updates_are_made_again(const Options& options) {
  at::Tensor a = torch::ones({4}), b = torch::ones({4});
  Opened<Optimizer> one({a}, options);
  Optimizer two({b}, options);
  a.mutable_grad() = torch::ones({4});
  b.mutable_grad() = torch::ones({4});
  one.update_early(a);
  one.forget_early();
  one.step();
  two.step();
  EXPECT_FALSE(torch::equal(a, b));
  two.step();
  EXPECT_TRUE(torch::equal(a, b));
}

// If weights share memory, the result depends on the order of their updates.
template <class Optimizer, class Options>
void expect_weights_that_share_memory_are_not_updated_early(const Options& options) {
  const at::Tensor base = torch::ones({10});
  at::Tensor a = base.narrow(0, 0, 6), b = base.narrow(0, 4, 6), twice = torch::ones({4}), alone = torch::ones({4});
  Opened<Optimizer> optimizer({a, b, twice, alone, twice}, options);
  for (auto* weight : {&a, &b, &twice, &alone}) {
    weight->mutable_grad() = torch::ones_like(*weight);
    optimizer.update_early(*weight);
  }
  EXPECT_TRUE(base.eq(1).all().template item<bool>() && twice.eq(1).all().template item<bool>());
  EXPECT_FALSE(alone.eq(1).any().template item<bool>());
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

// Four ones after a step whose closure computes the gradients of their sum.
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

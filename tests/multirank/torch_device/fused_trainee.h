#pragma once
// What the tests of kolo's own optimizers train: tensors of odd shapes, in two groups with options of their own, whose
// gradients are missing now and then.
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "multirank/torch_device/torch_world.h"

namespace kolo::test {

// The same options for torch's optimizer and for kolo's.
struct SgdGroups {
  using Torch = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  static Options first() { return Options(0.1).momentum(0.9).nesterov(true).weight_decay(1e-2); }
  static Options second() { return Options(0.05).momentum(0.5).dampening(0.25); }
};
struct PlainSgdGroups : SgdGroups {
  static Options first() { return Options(0.1).weight_decay(1e-2); }
  static Options second() { return Options(0.05); }
};
struct AdamwGroups {
  using Torch = torch::optim::AdamW;
  using Options = torch::optim::AdamWOptions;
  static Options first() { return Options(1e-2).weight_decay(0.1); }
  static Options second() { return Options(3e-3).betas({0.8, 0.99}).eps(1e-6).weight_decay(0); }
};

class OddParameters {
 public:
  explicit OddParameters(const c10::Device& device) : device_(device) {
    for (const auto& sizes : kSizes) all_.push_back(numbers(all_.size() + 1, sizes).to(device));
    all_[3] = numbers(9, {2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast).to(device);
    all_[4] = numbers(10, {7, 2}).t().to(device);
    for (at::Tensor& each : all_) each.requires_grad_();
  }
  template <class Optimizer, class Groups>
  [[nodiscard]] std::shared_ptr<Optimizer> optimizer() const {
    using torch::optim::OptimizerParamGroup;
    using Options = typename Groups::Options;
    const std::vector<at::Tensor> first(all_.begin(), all_.begin() + 3), second(all_.begin() + 3, all_.end());
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(first, std::make_unique<Options>(Groups::first()));
    groups.emplace_back(second, std::make_unique<Options>(Groups::second()));
    return std::make_shared<Optimizer>(groups, Groups::first());
  }
  [[nodiscard]] NamedTensors named() const {
    NamedTensors named;
    for (const at::Tensor& each : all_) named.emplace_back("p" + std::to_string(named.size()), each);
    return named;
  }
  // Of a batch; those in `without` take no part.
  [[nodiscard]] at::Tensor loss(std::uint64_t batch, const std::vector<std::size_t>& without = {}) const {
    at::Tensor sum = numbers(batch, {1}).to(device_).sum();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (std::find(without.begin(), without.end(), i) != without.end()) continue;
      const std::uint64_t seed = 100 * batch + i;
      sum = sum + (all_[i] - numbers(seed, all_[i].sizes().vec()).to(device_)).pow(2).sum();
    }
    return sum;
  }
  [[nodiscard]] Tensors values() const {
    Tensors values;
    for (const at::Tensor& each : all_) values.push_back(each.detach().cpu().clone());
    return values;
  }

 private:
  inline static const std::vector<std::vector<std::int64_t>> kSizes{{13, 11}, {1}, {31}, {1}, {1}, {5}};
  c10::Device device_;
  std::vector<at::Tensor> all_;
};

// The optimizer is torch's in the end: what it takes from a stream of bytes, the other one has put there.
template <class To, class From>
void hand_over(To& to, const From& from, const c10::Device& device) {
  std::stringstream bytes;
  torch::save(from, bytes);
  torch::load(to, bytes, device);
}

// Tensor 2 begins a step later than the others, and tensor 5 has a gradient on rank 0 alone in one step. The rate
// falls.
class OddTraining {
 public:
  OddTraining(Place& place, std::shared_ptr<torch::optim::Optimizer> optimizer, const OddParameters& parameters)
      : place_(place),
        parameters_(parameters),
        distributed_(place.context, std::move(optimizer), parameters.named(), small_buckets_of_tensors()) {}

  void step(int number) {
    std::vector<std::size_t> without;
    if (number == 0) without.push_back(2);
    if (number == 1 && place_.context.rank() != 0) without.push_back(5);
    distributed_.zero_grad();
    parameters_.loss(static_cast<std::uint64_t>(10 * number + place_.context.rank()), without).backward();
    distributed_.step();
    for (auto& group : distributed_.optimizer().param_groups()) {
      group.options().set_lr(group.options().get_lr() * 0.9);
    }
  }
  [[nodiscard]] DistributedOptimizer& distributed() { return distributed_; }

 private:
  Place& place_;
  const OddParameters& parameters_;
  DistributedOptimizer distributed_;
};

}  // namespace kolo::test

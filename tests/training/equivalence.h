#pragma once
// A small model that N ranks with a batch each, and one process with all the batches together, train alike.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstring>

#include "kolo/context.h"
#include "kolo/torch/torch.h"

namespace kolo::test {

constexpr int kSteps = 10;
constexpr std::int64_t kBatch = 4;  // a rank

enum class Rule { sgd, fused_sgd, adamw, fused_adamw };

// A generator of its own: the global one is shared by ranks that are threads.
inline at::Tensor noise(std::uint64_t seed, std::vector<std::int64_t> sizes, at::ScalarType type) {
  at::Tensor values = torch::empty(sizes, torch::kFloat64);
  auto* data = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    data[i] = static_cast<double>(seed >> 11) / 4503599627370496.0 - 1.0;
  }
  return values.to(type);
}

inline torch::nn::Sequential make_model(at::ScalarType type) {
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)), torch::nn::ReLU(),
                              torch::nn::Flatten(), torch::nn::Linear(8 * 4 * 4, 16), torch::nn::Tanh(),
                              torch::nn::Linear(16, 5));
  model->to(type);
  const torch::NoGradGuard no_grad;
  std::uint64_t seed = 1;
  for (auto& parameter : model->parameters()) {
    parameter.copy_(noise(seed++, parameter.sizes().vec(), type) * 0.2);
  }
  return model;
}

inline std::shared_ptr<torch::optim::Optimizer> make_optimizer(Rule rule, std::vector<at::Tensor> parameters) {
  const auto sgd = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3);
  const torch::optim::AdamWOptions adamw(1e-2);
  switch (rule) {
    case Rule::sgd:
      return std::make_shared<torch::optim::SGD>(std::move(parameters), sgd);
    case Rule::fused_sgd:
      return std::make_shared<FusedSGD>(std::move(parameters), sgd);
    case Rule::adamw:
      return std::make_shared<torch::optim::AdamW>(std::move(parameters), adamw);
    case Rule::fused_adamw:
      break;
  }
  return std::make_shared<FusedAdamW>(std::move(parameters), adamw);
}

// Batch of `rank` at `step`; the union over ranks is the concatenation.
inline std::pair<at::Tensor, at::Tensor> batch_of(int step, int rank, at::ScalarType type) {
  const auto seed = static_cast<std::uint64_t>(1000 + step * 100 + rank);
  const at::Tensor target = torch::arange(kBatch) + (step + rank);
  return {noise(seed, {kBatch, 3, 6, 6}, type), target.remainder(5)};
}

inline at::Tensor loss_of(torch::nn::Sequential& model, const at::Tensor& input, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(model->forward(input), target);
}

inline std::vector<at::Tensor> copies(const torch::nn::Sequential& model) {
  std::vector<at::Tensor> result;
  for (const auto& parameter : model->parameters()) {
    result.push_back(parameter.detach().clone());
  }
  return result;
}

using History = std::vector<std::vector<at::Tensor>>;  // parameters after each step

inline History train_alone(Rule rule, at::ScalarType type, int ranks) {
  auto model = make_model(type);
  auto optimizer = make_optimizer(rule, model->parameters());
  History history;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> targets;
    for (int rank = 0; rank < ranks; ++rank) {
      auto [input, target] = batch_of(step, rank, type);
      inputs.push_back(input);
      targets.push_back(target);
    }
    optimizer->zero_grad();
    loss_of(model, torch::cat(inputs), torch::cat(targets)).backward();
    optimizer->step();
    history.push_back(copies(model));
  }
  return history;
}

// Several buckets.
inline DistributedOptions packed() {
  DistributedOptions options;
  options.bucket_bytes = 2048;
  return options;
}
// All gradients of more than a few elements in shared memory.
inline DistributedOptions shared() {
  DistributedOptions options = packed();
  options.shared_gradients = true;
  options.shared_from = 64;
  return options;
}

// One rank's part. Throws what kolo throws.
inline History train_together(Context& context, Rule rule, at::ScalarType type,
                              const DistributedOptions& options = packed()) {
  at::set_num_threads(1);
  return context.run([&] {
    auto model = make_model(type);
    if (context.rank() != 0) {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.fill_(context.rank());
    }
    broadcast_parameters(context, *model);
    DistributedOptimizer optimizer(context, make_optimizer(rule, model->parameters()), model->named_parameters(),
                                   options);
    History history;
    for (int step = 0; step < kSteps; ++step) {
      auto [input, target] = batch_of(step, context.rank(), type);
      optimizer.zero_grad();
      loss_of(model, input, target).backward();
      optimizer.step();
      history.push_back(copies(model));
    }
    return history;
  });
}

inline bool bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

inline void expect_bitwise_equal(const History& a, const History& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t step = 0; step < a.size(); ++step) {
    for (std::size_t i = 0; i < a[step].size(); ++i) {
      ASSERT_TRUE(bitwise_equal(a[step][i], b[step][i])) << what << ", step " << step << ", tensor " << i;
    }
  }
}

// In norm, tensor by tensor, after the last step.
inline void expect_close(const History& a, const History& expected, double tolerance) {
  for (std::size_t i = 0; i < expected.back().size(); ++i) {
    const auto& wanted = expected.back()[i];
    const double error = (a.back()[i] - wanted).norm().item<double>() / wanted.norm().item<double>();
    EXPECT_LE(error, tolerance) << "tensor " << i;
  }
}

struct Precision {
  at::ScalarType type;
  double tolerance;
};
inline const Precision kPrecisions[] = {{torch::kFloat64, 1e-9}, {torch::kFloat32, 1e-5}};
inline constexpr Rule kRules[] = {Rule::sgd, Rule::fused_sgd, Rule::adamw, Rule::fused_adamw};

}  // namespace kolo::test

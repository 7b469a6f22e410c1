#pragma once
// Ranks as threads that train a small network with momentum, and a Checkpointer.
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/torch/torch.h"
#include "support/local_ranks.h"
#include "support/temporary_folder.h"

namespace kolo::test {

namespace fs = std::filesystem;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    last = register_module("last", torch::nn::Linear(8, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::relu(norm(first(x)))); }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Net);

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

inline std::unique_ptr<torch::optim::Optimizer> make_sgd(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(0.05).momentum(0.9));
}

inline Net make_net(double seed) {
  Net net;
  const at::NoGradGuard no_grad;
  for (auto& parameter : net->parameters()) {
    parameter.copy_(torch::arange(parameter.numel(), torch::kFloat).add(seed).sin().mul(0.3).view_as(parameter));
    seed += 1;
  }
  return net;
}

// One rank's program. Its batches depend on the step and the rank only.
struct Program {
  Program(Context& of, const fs::path& folder, const CheckpointerOptions& options, double seed = 1,
          const MakeOptimizer& make = make_sgd)
      : context(of),
        net(make_net(seed)),
        optimizer(context, make(net->parameters()), net),
        checkpoints(context, folder, options) {
    checkpoints.add("model", net);
    checkpoints.add("optimizer", optimizer);
    checkpoints.add("sampler", sampler);
  }
  void train() {
    (void)sampler.next(4);
    const double at = static_cast<double>(done * context.size() + context.rank());
    const at::Tensor x = (torch::arange(16, torch::kFloat).view({4, 4}) + at).sin();
    optimizer.zero_grad();
    net(x).pow(2).mean().backward();
    optimizer.step();
  }
  // Until `steps` are done or a stop is requested.
  void run(std::int64_t steps) {
    while (done < steps && !checkpoints.stop_requested()) {
      train();
      checkpoints.step(++done);
    }
  }
  // Trains on until so many checkpoints are published.
  void run_until_written(std::int64_t count) {
    while (checkpoints.counts().written < count) run(done + 1);
  }
  [[nodiscard]] at::Tensor weights() const {
    std::vector<at::Tensor> flat;
    for (const auto& parameter : net->parameters()) flat.push_back(parameter.detach().reshape({-1}));
    return torch::cat(flat);
  }

  Context& context;
  Net net;
  DistributedOptimizer optimizer;
  DistributedSampler sampler{{.dataset_size = 1000, .rank = context.rank(), .ranks = context.size(), .seed = 3}};
  Checkpointer checkpoints;
  std::int64_t done = 0;
};

// The weights of rank 0 after `steps`, without an interruption.
inline at::Tensor uninterrupted(int ranks, std::int64_t steps, const MakeOptimizer& make = make_sgd) {
  const TemporaryFolder folder;
  at::Tensor weights;
  on_ranks(ranks, [&](Context& context) {
    Program program(context, folder.path() / "run", {.every = 1000}, 1, make);
    (void)program.checkpoints.restore();
    program.run(steps);
    if (context.rank() == 0) weights = program.weights();
  });
  return weights;
}

inline void write_steps(const fs::path& folder, int ranks, const std::vector<std::int64_t>& steps) {
  on_ranks(ranks, [&](Context& context) {
    Program program(context, folder, {.every = 1000, .keep = 0});
    (void)program.checkpoints.restore();
    for (const auto step : steps) {
      program.run(step);
      (void)program.checkpoints.finish();
    }
  });
}

}  // namespace kolo::test

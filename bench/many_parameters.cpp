// CPU time of a DistributedOptimizer as the number of parameters grows: constructor, step(), a changed table.
//
//   many_parameters [ranks [parameters...]]        default: 1 rank, 5000 and 40000 parameters of 16 floats
//
// Ranks are threads. Steps of torch's SGD on a model of its own and of the DistributedOptimizer alternate. Each figure
// is the median over rank 0's repetitions, in CPU time of its thread.
#include <ATen/Parallel.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kolo/context.h"
#include "kolo/torch/torch.h"

namespace {

constexpr int kConstructions = 5;
constexpr int kSteps = 9;

double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

template <class F>
double time_of(F&& body) {
  const double begin = milliseconds();
  body();
  return milliseconds() - begin;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Model {
  explicit Model(int parameters) {
    for (int i = 0; i < parameters; ++i) {
      weights.push_back(torch::ones({16}).requires_grad_());
      names.emplace_back("p" + std::to_string(i), weights.back());
    }
    sgd = std::make_shared<torch::optim::SGD>(weights, torch::optim::SGDOptions(1e-6));
  }
  // Each gradient is a tensor of its own, as layers make them.
  void backward() const {
    std::vector<at::Tensor> losses;
    for (const at::Tensor& weight : weights) {
      if (weight.requires_grad()) losses.push_back(weight.dot(weight));
    }
    torch::stack(losses).sum().backward();
  }
  std::vector<at::Tensor> weights;
  kolo::NamedTensors names;
  std::shared_ptr<torch::optim::SGD> sgd;
};

void measure(kolo::Context& context, int parameters) {
  const Model plain(parameters), model(parameters);
  std::vector<double> constructions, plain_steps, steps;
  std::optional<kolo::DistributedOptimizer> optimizer;
  for (int i = 0; i < kConstructions; ++i) {
    optimizer.reset();
    constructions.push_back(time_of([&] { optimizer.emplace(context, model.sgd, model.names); }));
  }
  const auto step = [&] {
    optimizer->zero_grad();
    model.backward();
    return time_of([&] { optimizer->step(); });
  };
  const double first = step();
  for (int i = 0; i < kSteps; ++i) {
    plain.sgd->zero_grad();
    plain.backward();
    plain_steps.push_back(time_of([&] { plain.sgd->step(); }));
    steps.push_back(step());
  }
  model.weights.front().requires_grad_(false);
  model.weights.front().mutable_grad().reset();
  const double changed = step();
  const double end = time_of([&] { optimizer->detach(); });
  if (context.rank() != 0) return;
  const double count = parameters;
  std::printf(
      "%d parameters: constructor %.1f ms; step %.2f us a parameter, torch's SGD %.2f (%.2f times); first step %.2f, "
      "after one was frozen %.2f, detach() %.2f\n",
      parameters, median(constructions), 1e3 * median(steps) / count, 1e3 * median(plain_steps) / count,
      median(steps) / median(plain_steps), 1e3 * first / count, 1e3 * changed / count, 1e3 * end / count);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  at::set_num_threads(1);
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const int ranks = words.empty() ? 1 : std::stoi(words[0]);
  std::vector<int> sizes;
  for (std::size_t i = 1; i < words.size(); ++i) sizes.push_back(std::stoi(words[i]));
  if (sizes.empty()) sizes = {5000, 40000};
  for (const int size : sizes) {
    const auto contexts = kolo::Context::create_local(ranks);
    std::vector<std::thread> threads;
    for (const auto& context : contexts) threads.emplace_back([&, size] { measure(*context, size); });
    for (auto& thread : threads) thread.join();
  }
}

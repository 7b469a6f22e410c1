// As engine_peer_killed.cpp, in real training steps: the victim dies before, in or after its backward pass, and step()
// says so on every other rank. optimizer_peer_killed POINT VICTIM; with "shared_" before the point, gradients lie in
// shared memory, and survivors keep theirs, which is nobody else's any more.
#include <ATen/Parallel.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "faults/survivor.h"
#include "kolo/torch/torch.h"

namespace kolo::test {
namespace {

constexpr int kCleanSteps = 3;

class Training {
 public:
  Training(Context& context, bool shared) {
    broadcast_parameters(context, parameters());
    DistributedOptions options;
    options.shared_gradients = shared;
    options.bucket_bytes = 16 * 1024;  // several buckets
    optimizer_ = std::make_unique<DistributedOptimizer>(
        context, std::make_shared<torch::optim::SGD>(tensors(), torch::optim::SGDOptions(0.01)), parameters(), options);
  }

  at::Tensor forward() {
    optimizer_->zero_grad();
    hidden_ = first_->forward(torch::ones({4, 64}));
    return second_->forward(hidden_.tanh()).sum();
  }
  // Backward reaches the last layer first; this is before the first one's gradient.
  void die_in_backward() {
    hidden_.register_hook([](const at::Tensor&) { die(); });
  }
  void step() { optimizer_->step(); }
  // Writes to all gradients there are. False when one does not keep what was written.
  [[nodiscard]] bool gradients_are_mine() const {
    for (const auto& tensor : tensors()) {
      if (tensor.grad().defined() && !tensor.grad().fill_(7).eq(7).all().item<bool>()) return false;
    }
    return true;
  }
  [[nodiscard]] at::Tensor weights() const { return torch::cat({first_->weight.flatten(), second_->weight.flatten()}); }

 private:
  [[nodiscard]] NamedTensors parameters() const {
    return {{"first.weight", first_->weight},
            {"first.bias", first_->bias},
            {"second.weight", second_->weight},
            {"second.bias", second_->bias}};
  }
  [[nodiscard]] std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : parameters()) all.push_back(tensor);
    return all;
  }

  torch::nn::Linear first_{64, 128};
  torch::nn::Linear second_{128, 64};
  at::Tensor hidden_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

std::string survive(Training& training, Rank victim) {
  at::Tensor weights;
  std::string complaint = outlive(victim, [&] {
    weights = training.weights().detach().clone();
    training.forward().backward();  // may be what says it
    training.step();
  });
  if (complaint.empty() && !weights.equal(training.weights())) complaint = "the weights have changed";
  if (complaint.empty() && !training.gradients_are_mine()) complaint = "somebody else writes to the gradients";
  return complaint;
}

int run(std::string point, Rank victim) {
  constexpr std::string_view kShared = "shared_";
  const bool shared = point.starts_with(kShared);
  if (shared) point.erase(0, kShared.size());
  alarm(kEndOfAll);
  at::set_num_threads(1);
  auto context = Context::create(config_for_faults());
  const Rank rank = context->rank();
  std::string complaint;
  {
    Training training(*context, shared);
    for (int step = 0; step < kCleanSteps; ++step) {
      training.forward().backward();
      training.step();
    }
    if (rank == victim) {
      if (point == "before_backward") die();
      const at::Tensor loss = training.forward();
      if (point == "in_backward") training.die_in_backward();
      loss.backward();
      die();  // before_step
    }
    complaint = survive(training, victim);
  }
  context.reset();
  return report(rank, complaint);
}

}  // namespace
}  // namespace kolo::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return kolo::test::run(argv[1], std::atoi(argv[2]));
}

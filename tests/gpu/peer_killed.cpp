// A rank dies by SIGKILL while the others train on the GPU: step() says so on all of them, soon, though NCCL would wait
// for it for ever. peer_killed POINT VICTIM, driven by tests/faults/peer_killed.py.
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "faults/survivor.h"
#include "gpu/torch_gpu.h"
#include "kolo/torch/torch.h"

namespace kolo::test {
namespace {

constexpr int kCleanSteps = 3;

class Training {
 public:
  Training(Context& context, const c10::Device& device)
      : options_(at::TensorOptions().device(device)),
        weight_(torch::zeros({1 << 20}, options_.requires_grad(true))),
        optimizer_(context,
                   std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{weight_}, torch::optim::SGDOptions(0.1)),
                   NamedTensors{{"weight", weight_}}) {}
  void backward() {
    optimizer_.zero_grad();
    (weight_ * torch::ones_like(weight_)).sum().backward();
  }
  void step() { optimizer_.step(); }

 private:
  at::TensorOptions options_;
  at::Tensor weight_;
  DistributedOptimizer optimizer_;
};

int run(const std::string& point, Rank victim) {
  alarm(kEndOfAll);
  Config config = config_for_faults();
  config.shared_device = Config::from_environment().shared_device;
  auto context = Context::create(config);
  const Rank rank = context->rank();
  std::string complaint;
  {
    Training training(*context, training_device(*context));
    for (int step = 0; step < kCleanSteps; ++step) {
      training.backward();
      training.step();
    }
    if (rank == victim) {
      if (point == "before_step") training.backward();
      die();
    }
    complaint = outlive(victim, [&] {
      training.backward();
      training.step();
    });
  }
  context.reset();
  return report(rank, complaint);
}

}  // namespace
}  // namespace kolo::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return kolo::test::run(argv[1], std::atoi(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

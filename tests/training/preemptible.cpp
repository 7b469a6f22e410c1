// A job that is killed and preempted by preemptions.py: preemptible FOLDER STEPS EVERY. Rank 0 writes "restored N", at
// each start, and "stopped N" or "weights N <hash>" at the end; each rank writes "pid P" first.
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kolo/torch/torch.h"
#include "torch/fingerprint.h"

namespace {

struct Net : torch::nn::Module {
  Net() {
    for (const char* name : {"a", "b", "c"}) layers->push_back(name, torch::nn::Linear(256, 256));
    register_module("layers", layers);
    const torch::NoGradGuard no_grad;
    double seed = 0;
    for (auto& parameter : parameters()) {
      parameter.copy_(torch::arange(parameter.numel(), torch::kFloat).add(++seed).sin().mul(0.08).view_as(parameter));
    }
  }
  torch::nn::Sequential layers;
};

std::uint64_t hash_of(const Net& net) {
  std::uint64_t hash = 0;
  for (const auto& parameter : net.parameters()) hash = hash * 31 + kolo::fingerprint(parameter.detach());
  return hash;
}

int train(kolo::Context& context, const char* folder, std::int64_t steps, std::int64_t every) {
  const auto net = std::make_shared<Net>();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  kolo::DistributedOptimizer optimizer(context, sgd, net);
  kolo::Checkpointer checkpoints(context, folder, {.every = every, .stop_on = kolo::StopOn::signals});
  checkpoints.add("model", net);
  checkpoints.add("optimizer", optimizer);
  std::int64_t done = checkpoints.restore();
  if (context.rank() == 0) std::printf("restored %lld\n", static_cast<long long>(done));
  std::fflush(stdout);
  while (done < steps && !checkpoints.stop_requested()) {
    // The sums of a batch do not depend on the number of threads: one.
    const double at = static_cast<double>(done * context.size() + context.rank());
    const at::Tensor x = (torch::arange(4 * 256, torch::kFloat).view({4, 256}) + at).sin();
    optimizer.zero_grad();
    net->layers->forward(x).pow(2).mean().backward();
    optimizer.step();
    checkpoints.step(++done);
  }
  const int status = checkpoints.finish();
  if (context.rank() == 0 && status != 0) std::printf("stopped %lld\n", static_cast<long long>(done));
  if (context.rank() == 0 && status == 0) {
    std::printf("weights %lld %016llx\n", static_cast<long long>(done), static_cast<unsigned long long>(hash_of(*net)));
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::printf("pid %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  try {
    at::set_num_threads(1);
    const auto context = kolo::Context::create();
    const int status = context->run([&] { return train(*context, argv[1], std::atoll(argv[2]), std::atoll(argv[3])); });
    context->shutdown();
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "preemptible: %s\n", error.what());
    return 1;
  }
}

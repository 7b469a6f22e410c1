// Large batches in small pieces: gradients of four passes add up on each rank, are reduced once, clipped, and used.
//
//   mpirun -np 2 03_accumulate_and_clip
#include <torch/nn.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <cstdio>

#include "kolo/kolo.h"
#include "kolo/torch/torch.h"

namespace {

constexpr int kPasses = 4;

// Learns y = x M for a fixed M; returns the last loss, averaged over the ranks.
double train(kolo::Context& context) {
  torch::manual_seed(7);
  const at::Tensor truth = torch::randn({16, 4});
  torch::nn::Linear model(16, 4);
  kolo::broadcast_parameters(context, model);
  auto adam = std::make_shared<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(0.05));
  kolo::broadcast_optimizer_state(context, *adam);
  kolo::DistributedOptimizer optimizer(context, adam, model);

  torch::manual_seed(100 + static_cast<std::uint64_t>(context.rank()));  // every rank its own data
  const auto backward = [&] {
    const at::Tensor x = torch::randn({8, 16});
    const at::Tensor loss = (model->forward(x) - x.matmul(truth)).square().mean() / kPasses;
    loss.backward();
    return loss.item<double>();
  };
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    loss = 0;
    {
      const auto local = optimizer.no_sync();  // these passes stay on this rank
      for (int pass = 1; pass < kPasses; ++pass) {
        loss += backward();
      }
    }
    loss += backward();       // the last one is reduced while it runs
    optimizer.synchronize();  // now param.grad() is the average over all ranks ...
    torch::nn::utils::clip_grad_norm_(model->parameters(), 5.0);
    optimizer.step();  // ... and is used as it is
  }
  return kolo::allreduce_metrics(context, {loss})[0];
}

}  // namespace

int main() {
  try {
    const auto context = kolo::Context::create();
    at::set_num_threads(1);
    const double loss = context->run([&] { return train(*context); });
    if (context->rank() == 0) {
      std::printf("loss %.4f\n", loss);
    }
    context->shutdown();
    return loss < 0.5 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

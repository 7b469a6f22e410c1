// The examples of docs/gradients.md. They are compiled, not run.
#include <torch/nn/utils/clip_grad.h>
#include <torch/types.h>

#include <vector>

#include "kolo/torch/torch.h"

using Optimizer = kolo::DistributedOptimizer;
using Tensors = std::vector<at::Tensor>;

void clipped_step(Optimizer& optimizer, const Tensors& parameters, const at::Tensor& loss) {
  optimizer.zero_grad();
  loss.backward();
  optimizer.synchronize();  // param.grad() is now the reduced gradient
  torch::nn::utils::clip_grad_norm_(parameters, 1.0);
  optimizer.step();
}

void generator_step(Optimizer& generator, Optimizer& discriminator, const at::Tensor& loss) {
  generator.zero_grad();
  {
    const auto keep = discriminator.no_sync();  // backward() also reaches the discriminator
    loss.backward();
  }
  generator.step();
}

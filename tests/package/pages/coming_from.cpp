// The example of docs/coming-from.md. Compiled, not run.
#include <torch/nn.h>
#include <torch/optim/sgd.h>

#include <utility>
#include <vector>

#include "kolo/torch/torch.h"

namespace pages {

using Batches = std::vector<std::pair<at::Tensor, at::Tensor>>;
using torch::nn::functional::cross_entropy;

void train(kolo::Context& context, torch::nn::Sequential model, const Batches& batches) {
  kolo::broadcast_parameters(context, model);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
  kolo::DistributedOptimizer optimizer(context, sgd, model);
  for (const auto& [images, labels] : batches) {
    optimizer.zero_grad();
    cross_entropy(model->forward(images), labels).backward();
    optimizer.step();
  }
}

}  // namespace pages

// The code of docs/devices.md: compiled, not run.
#include <torch/nn.h>

#include "kolo/kolo.h"
#include "kolo/torch/torch.h"

namespace pages {

void train(kolo::Context& context, torch::nn::Sequential& model) {
  model->to(kolo::use_cuda(context));  // the GPU of this rank
  kolo::broadcast_parameters(context, model);
  kolo::FusedSGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  kolo::DistributedOptimizer optimizer(context, sgd, model);  // from here on as on the CPU
}

}  // namespace pages

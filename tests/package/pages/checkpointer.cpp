// The first example of docs/checkpoints.md. It is compiled, not run.
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include "kolo/torch/torch.h"

namespace checkpointer_page {

using Model = torch::nn::Sequential;
using Optimizer = kolo::DistributedOptimizer;
using Sampler = kolo::DistributedSampler;

void train_step(Model& model, Optimizer& optimizer, Sampler& sampler);

int train(kolo::Context& context, Model& model, Optimizer& optimizer, Sampler& sampler, int steps) {
  kolo::Checkpointer checkpoints(context, "/shared/run7", {.every = std::chrono::minutes(5)});
  checkpoints.add("model", model);
  checkpoints.add("optimizer", optimizer);
  checkpoints.add("sampler", sampler);
  std::int64_t done = checkpoints.restore();  // completed steps; 0: a fresh start
  while (done < steps && !checkpoints.stop_requested()) {
    train_step(model, optimizer, sampler);
    checkpoints.step(++done);  // if a checkpoint is due, copies; a thread writes
  }
  return checkpoints.finish();
}

}  // namespace checkpointer_page

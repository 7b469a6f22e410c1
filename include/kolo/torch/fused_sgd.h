#pragma once
// torch::optim::SGD in one pass over the memory.
#include <torch/optim/sgd.h>

#include <vector>

#include "kolo/torch/fused_optimizer.h"

namespace kolo {

// SGD with momentum, dampening, weight decay and Nesterov: the numbers of torch::optim::SGD up to rounding, in about
// half its time, because weight, momentum and gradient are each touched once. Options, state and saved form are those
// of torch::optim::SGD, so checkpoints of one load into the other and schedules work unchanged. With one thread the
// result does not depend on the processor; with several, large tensors go through torch's own kernel.
//
// On a device, wrapped in a DistributedOptimizer: all fp32 tensors of a parameter group are updated by one launch of
// kolo's kernel, in the stream that is current in step(), which reads the reduced gradients where they lie; to the bits
// that one thread of the CPU computes. Other types, and an optimizer that is not wrapped: by one call of torch's fused
// kernel.
class FusedSGD : public torch::optim::SGD, public FusedOptimizer {
 public:
  using torch::optim::SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override;
  [[nodiscard]] std::vector<at::Tensor> kept_for(const at::Tensor& weight) const override;

 private:
  void undo() override;
  [[nodiscard]] const torch::optim::Optimizer& optimizer() const noexcept override { return *this; }
  void update(std::size_t group, std::size_t from, std::size_t to) override;

  std::vector<at::Tensor> begun_;  // weights whose momenta began in the last step()
};

}  // namespace kolo

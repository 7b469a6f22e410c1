#pragma once
// torch::optim::SGD in one pass over the memory.
#include <torch/optim/sgd.h>

namespace kolo {

// SGD with momentum, dampening, weight decay and Nesterov: the numbers of torch::optim::SGD up to rounding, in about
// half its time, because weight, momentum and gradient are each touched once. Options, state and saved form are those
// of torch::optim::SGD, so checkpoints of one load into the other and schedules work unchanged. With one thread the
// result does not depend on the processor; with several, large tensors go through torch's own kernel, and on devices
// all of a parameter group do, in one call.
class FusedSGD : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace kolo

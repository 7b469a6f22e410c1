#pragma once
// torch::optim::SGD in one pass over the memory.
#include <torch/optim/sgd.h>

#include <vector>

#include "kolo/export.h"
#include "kolo/torch/fused_optimizer.h"

namespace KOLO_EXPORT kolo {

// SGD with momentum, dampening, weight decay and Nesterov: the numbers of torch::optim::SGD up to rounding, in about
// half its time, because weight, momentum and gradient are each touched once. Options, state and saved form are those
// of torch::optim::SGD, so checkpoints of one load into the other and schedules work unchanged.
//
// In the host's memory each element has the same bits for any number of threads, any instruction set, and any layout of
// the tensors. Parameters are float, double, half or bfloat16 (complex: two of these). Half and bfloat16 are computed
// in fp32, and each value that is stored (weight, momentum) is rounded once. Tensors of several types are computed in
// the type that holds all of them. Gaps and other layouts cost copies. step() throws UsageError for other types, and
// for a parameter whose elements share memory, such as an expanded one.
//
// On a device, wrapped in a DistributedOptimizer, one launch of kolo's kernel updates all fp32
// tensors of a parameter group, in the stream that is current in step(). The kernel reads the
// reduced gradients where they lie and computes the same bits as the CPU. For other types, and for
// an optimizer that is not wrapped, torch's fused kernel does the update.
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

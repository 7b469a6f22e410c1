#pragma once
// torch::optim::AdamW in one pass over the memory.
#include <torch/optim/adamw.h>

#include <vector>

#include "kolo/export.h"
#include "kolo/torch/fused_optimizer.h"

namespace KOLO_EXPORT kolo {

// The numbers of torch::optim::AdamW up to rounding; options, state and saved form are the same. Bits, types and
// layouts in the host's memory are as with FusedSGD. On a device, under a DistributedOptimizer, a parameter group is
// one launch of kolo's kernel. Without amsgrad: step() throws UsageError for a group that asks for it, for sparse
// gradients and for complex parameters.
class FusedAdamW : public torch::optim::AdamW, public FusedOptimizer {
 public:
  using torch::optim::AdamW::AdamW;
  at::Tensor step(LossClosure closure = nullptr) override;
  [[nodiscard]] std::vector<at::Tensor> kept_for(const at::Tensor& weight) const override;

 private:
  void undo() override;
  [[nodiscard]] const torch::optim::Optimizer& optimizer() const noexcept override { return *this; }
  void update(std::size_t group, std::size_t from, std::size_t to) override;

  std::vector<at::Tensor> counted_;  // weights that took part in the last step()
};

}  // namespace kolo

#pragma once
// SGD and AdamW that read each weight, gradient and state element once in each step.
//
//   kolo::FusedSGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <vector>

#include "kolo/detail/export.h"
#include "kolo/spi/fused_optimizer.h"

namespace KOLO_EXPORT kolo {

// SGD with momentum, dampening, weight decay and Nesterov. The results equal those of torch::optim::SGD up to rounding,
// in about half of its time, because each weight, momentum and gradient is read once. Options, state and saved form are
// those of torch::optim::SGD: checkpoints of one load into the other, and schedulers work unchanged.
//
// In CPU memory each element has the same bits for any number of threads, any instruction set and any layout.
// Parameters are float, double, half or bfloat16, or complex. Half and bfloat16 are computed in fp32, and each stored
// value (weight, momentum) is rounded once. Mixed types are computed in the widest one; tensors with gaps are copied.
// step() throws UsageError for other types, and for a parameter whose elements share memory, such as an expanded one.
//
// On a GPU, wrapped in a DistributedOptimizer, one kernel launch in the current stream updates all fp32 tensors of a
// parameter group, with the same bits as the CPU. For other types, and for an optimizer that is not wrapped, torch's
// fused kernel does the update.
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

// AdamW; the statements about FusedSGD hold, compared with torch::optim::AdamW. It supports no amsgrad, no sparse
// gradients and no complex parameters: step() throws UsageError for them.
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

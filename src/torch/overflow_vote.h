#pragma once
// Whether a gradient of any rank is infinite or no number, found and agreed on by devices while the hosts go on.
#include <ATen/core/Tensor.h>

#include <memory>

#include "kolo/context.h"
#include "kolo/torch/fused_optimizer.h"

namespace kolo {

class OverflowVote {
 public:
  // `context`: null, or of one rank: there is nobody to ask. Else collective, as take() is. `like`: on the device.
  OverflowVote(Context* context, const FusedOptimizer& optimizer, const at::Tensor& like);

  // Enqueued in the current stream, behind which the answer is at the returned address, in the device's memory, until
  // the next call: 0 where all gradients are finite. REQUIRES: launches_all(), or no gradient at all. Throws what
  // GradientReducer::finish throws.
  [[nodiscard]] const float* take(FusedOptimizer& optimizer);
  // The one that is current on the device.
  [[nodiscard]] Stream stream() const;

 private:
  at::Tensor flag_;  // this rank's
  std::unique_ptr<GradientReducer> reducer_;
};

}  // namespace kolo

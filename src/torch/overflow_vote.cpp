#include "torch/overflow_vote.h"

#include <ATen/ops/zeros.h>

#include "torch/torch_device.h"

namespace kolo {

OverflowVote::OverflowVote(Context* context, const FusedOptimizer& optimizer, const at::Tensor& like)
    : flag_(at::zeros({1}, like.options().dtype(c10::kFloat).requires_grad(false))) {
  if (context == nullptr || context->size() == 1) return;
  ReducerOptions options;
  options.op = ReduceOp::sum;
  options.device = optimizer.shared_launcher()->device();
  reducer_ = context->engine().make_reducer({{"kolo/overflow", {1}, {1}, DType::f32, true}}, options);
}

Stream OverflowVote::stream() const { return to_stream(current_stream(flag_.device())); }

// The flags are summed as one more gradient: whatever reduces gradients reduces them, and nothing waits for a device
// that does not anyway.
const float* OverflowVote::take(FusedOptimizer& optimizer) {
  flag_.zero_();
  if (optimizer.launches_all()) optimizer.find_nonfinite(flag_);
  if (reducer_ == nullptr) return flag_.const_data_ptr<float>();
  reducer_->contribute(0, flag_.const_data_ptr<float>(), stream());
  reducer_->finish(stream());
  return reinterpret_cast<const float*>(reducer_->gradient(0).data());
}

}  // namespace kolo

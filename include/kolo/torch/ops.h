#pragma once
// Collectives on tensors.
//
//   kolo::allreduce_(context, loss);                       // the average over all ranks, in place
//   const auto all = kolo::allgather(context, predictions);
//   kolo::allreduce_(context, loss, kolo::ReduceOp::sum, "loss");
//
// Operations with a name are matched across ranks by it: ranks may submit them in any order, and from several threads.
// Operations without a name are matched in the order of each rank's calls, and come from one thread of a rank. Kind,
// type and shape must agree, else every rank throws MismatchError.
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "kolo/context.h"
#include "kolo/export.h"
#include "kolo/types.h"
#include "kolo/work.h"

namespace KOLO_EXPORT kolo {

// An operation on a tensor in flight. The tensor stays alive until the operation is done, whoever lets go of this.
class TensorWork {
 public:
  TensorWork(Work work, at::Tensor tensor, at::Tensor dense)
      : work_(std::move(work)), tensor_(std::move(tensor)), dense_(std::move(dense)) {}
  [[nodiscard]] bool done() const noexcept { return work_.done(); }
  // Waits and returns the tensor with the result in it. Throws what the operation failed with.
  at::Tensor wait();

 private:
  Work work_;
  at::Tensor tensor_;
  at::Tensor dense_;  // what was sent: the tensor itself, or a contiguous copy of it
};

// In place. Do not touch the tensor before wait() has returned. Supports strides with gaps, lazy
// negation and inference tensors. If a rank's tensor is refused, wait() throws UsageError on every
// rank, no tensor has changed, and the name is free. Refused: undefined, sparse, complex, quantized
// and nested tensors; tensors without memory or with overlapping elements (expand()); in gradient
// mode, tensors that require a gradient (pass detach(), or call under NoGradGuard).
// Tensors of devices go through the host's memory: the call waits for the current stream, and the result is ready in
// the stream that is current in wait().
[[nodiscard]] TensorWork allreduce_async(Context& context, at::Tensor tensor, ReduceOp op = ReduceOp::average,
                                         std::string name = {});
[[nodiscard]] TensorWork broadcast_async(Context& context, at::Tensor tensor, Rank root = 0, std::string name = {});
at::Tensor allreduce_(Context& context, at::Tensor tensor, ReduceOp op = ReduceOp::average, std::string name = {});
at::Tensor broadcast_(Context& context, at::Tensor tensor, Rank root = 0, std::string name = {});

// All ranks' tensors one after the other along dimension 0, which may differ in size; the other dimensions must agree.
// A scalar counts as a tensor of size [1]. Errors as above, but elements may overlap.
[[nodiscard]] at::Tensor allgather(Context& context, const at::Tensor& tensor, std::string name = {});

// Metrics: each value reduced over the ranks in fp64.
[[nodiscard]] std::vector<double> allreduce_metrics(Context& context, std::vector<double> values,
                                                    ReduceOp op = ReduceOp::average, std::string name = {});

}  // namespace kolo

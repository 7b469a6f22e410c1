#pragma once
// Collectives on tensors.
//
//   kolo::allreduce_(context, loss.detach());              // the average over all ranks, in place
//   const auto all = kolo::allgather(context, predictions);
//   kolo::allreduce_(context, count, kolo::ReduceOp::sum, "count");
//
// Operations with a name are matched across ranks by it: ranks may submit them in any order, and from several threads.
// Operations without a name are matched in the order of each rank's calls, and must come from one thread. Kind, type
// and shape (except allgather's dimension 0) must be equal on all ranks, otherwise every rank throws MismatchError.
//
// The collectives are not differentiable: pass detach(), or call them under NoGradGuard. If one rank's tensor is
// unsupported, every rank throws UsageError, no tensor changes, and the name can be used again. Unsupported are:
//
//   undefined, sparse, complex, quantized and nested tensors
//   tensors without memory, or with overlapping elements (expand())
//   tensors that require a gradient, if gradients are enabled
//
// Strides with gaps, lazy negation and inference tensors are supported.
//
// Stream order: a tensor on a GPU is copied through CPU memory. The call blocks the CPU until the current stream is
// idle; the result is ready in the stream that is current in wait().
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "kolo/context.h"
#include "kolo/detail/export.h"
#include "kolo/types.h"
#include "kolo/work.h"

namespace KOLO_EXPORT kolo {

// An operation on a tensor in flight. It keeps the tensor alive until the operation is done, also if this object is
// destroyed before.
class TensorWork {
 public:
  TensorWork(Work work, at::Tensor tensor, at::Tensor dense)
      : work_(std::move(work)), tensor_(std::move(tensor)), dense_(std::move(dense)) {}
  [[nodiscard]] bool done() const noexcept { return work_.done(); }
  // Waits and returns the tensor with the result. Throws the error of the operation.
  at::Tensor wait();

 private:
  Work work_;
  at::Tensor tensor_;
  at::Tensor dense_;  // the memory of the operation: the tensor itself, or a contiguous copy of it
};

// In place. Do not use the tensor before wait() has returned.
[[nodiscard]] TensorWork allreduce_async(Context& context, at::Tensor tensor, ReduceOp op = ReduceOp::average,
                                         std::string name = {});
[[nodiscard]] TensorWork broadcast_async(Context& context, at::Tensor tensor, Rank root = 0, std::string name = {});
at::Tensor allreduce_(Context& context, at::Tensor tensor, ReduceOp op = ReduceOp::average, std::string name = {});
at::Tensor broadcast_(Context& context, at::Tensor tensor, Rank root = 0, std::string name = {});

// The tensors of all ranks, concatenated along dimension 0. Their first sizes may differ; other sizes must be equal. A
// scalar counts as a tensor of size [1]. Tensors with overlapping elements (expand()) are supported here.
[[nodiscard]] at::Tensor allgather(Context& context, const at::Tensor& tensor, std::string name = {});

// Reduces each value over the ranks in fp64; for metrics.
[[nodiscard]] std::vector<double> allreduce_metrics(Context& context, std::vector<double> values,
                                                    ReduceOp op = ReduceOp::average, std::string name = {});

}  // namespace kolo

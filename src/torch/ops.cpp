#include "kolo/torch/ops.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <numeric>
#include <utility>

#include "torch/dtype.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// The request for a tensor, with the tensor itself or a copy of it. If kolo cannot take the tensor,
// the request is a refusal, which reaches all ranks.
struct Prepared {
  Request request;
  at::Tensor dense;  // undefined: refused
};

Prepared prepare(const at::Tensor& tensor, std::string name, RequestKind kind) {
  Prepared prepared;
  Request& request = prepared.request;
  request.name = std::move(name);
  request.kind = kind;
  const bool gathers = kind == RequestKind::allgather;
  auto trouble = trouble_with(tensor, gathers ? Access::read : Access::write);
  if (trouble.empty()) trouble = trouble_with_graph(tensor);
  if (!trouble.empty()) {
    request.refused = "the tensor " + trouble;
    return prepared;
  }
  const c10::NoGradGuard no_grad;
  const at::Tensor dense = host_form(!gathers ? tensor : tensor.dim() == 0 ? tensor.view({1}) : tensor.contiguous());
  request.dtype = to_dtype(dense.scalar_type(), request.name);
  request.sizes = dense.sizes().vec();
  if (!dense.is_contiguous()) request.strides = dense.strides().vec();
  if (gathers) {
    request.input = dense.const_data_ptr();
  } else {
    request.input = request.output = dense.mutable_data_ptr();
  }
  request.keep = std::make_shared<at::Tensor>(dense);
  prepared.dense = dense;
  return prepared;
}

// How many rows all ranks have together: what an allgather of rows without elements does not tell.
std::int64_t rows_of_all(Context& context, std::int64_t rows, std::string name) {
  const auto mine = std::make_shared<const std::int64_t>(rows);
  Request request;
  request.name = std::move(name);
  request.kind = RequestKind::allgather;
  request.dtype = DType::i64;
  request.sizes = {1};
  request.input = mine.get();
  request.keep = mine;
  Work work = context.submit(std::move(request));
  work.wait();
  std::vector<std::int64_t> all(work.result().size() / sizeof(std::int64_t));
  std::memcpy(all.data(), work.result().data(), work.result().size());
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

}  // namespace

at::Tensor TensorWork::wait() {
  work_.wait();
  write_back(tensor_, std::exchange(dense_, tensor_));  // once: the program may change the tensor before it waits again
  return tensor_;
}

TensorWork allreduce_async(Context& context, at::Tensor tensor, ReduceOp op, std::string name) {
  auto [request, dense] = prepare(tensor, std::move(name), RequestKind::allreduce);
  request.op = op;
  return {context.submit(std::move(request)), std::move(tensor), std::move(dense)};
}

TensorWork broadcast_async(Context& context, at::Tensor tensor, Rank root, std::string name) {
  auto [request, dense] = prepare(tensor, std::move(name), RequestKind::broadcast);
  request.root = root;
  return {context.submit(std::move(request)), std::move(tensor), std::move(dense)};
}

at::Tensor allreduce_(Context& context, at::Tensor tensor, ReduceOp op, std::string name) {
  return allreduce_async(context, std::move(tensor), op, std::move(name)).wait();
}

at::Tensor broadcast_(Context& context, at::Tensor tensor, Rank root, std::string name) {
  return broadcast_async(context, std::move(tensor), root, std::move(name)).wait();
}

at::Tensor allgather(Context& context, const at::Tensor& tensor, std::string name) {
  auto [request, dense] = prepare(tensor, name, RequestKind::allgather);
  Work work = context.submit(std::move(request));
  work.wait();
  const auto bytes = work.result();
  std::vector<std::int64_t> sizes = dense.sizes().vec();
  std::size_t row = dense.element_size();
  for (std::size_t dim = 1; dim < sizes.size(); ++dim) {
    row *= static_cast<std::size_t>(sizes[dim]);
  }
  sizes[0] = row == 0 ? rows_of_all(context, sizes[0], std::move(name))  // on all ranks: only first sizes may differ
                      : static_cast<std::int64_t>(bytes.size() / row);
  const c10::NoGradGuard no_grad;
  at::Tensor gathered = at::empty(sizes, dense.options());
  if (!bytes.empty()) {
    std::memcpy(gathered.mutable_data_ptr(), bytes.data(), bytes.size());
  }
  return gathered.to(tensor.device());
}

std::vector<double> allreduce_metrics(Context& context, std::vector<double> values, ReduceOp op, std::string name) {
  const auto shared = std::make_shared<std::vector<double>>(std::move(values));
  Request request;
  request.name = std::move(name);
  request.dtype = DType::f64;
  request.sizes = {static_cast<std::int64_t>(shared->size())};
  request.op = op;
  request.input = shared->data();
  request.output = shared->data();
  request.keep = shared;
  context.submit(std::move(request)).wait();
  return *shared;
}

}  // namespace kolo

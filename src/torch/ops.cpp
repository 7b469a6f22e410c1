#include "kolo/torch/ops.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <cstring>

#include "kolo/error.h"
#include "torch/dtype.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

Request request_for(const at::Tensor& dense, std::string name, RequestKind kind) {
  Request request;
  request.dtype = to_dtype(dense.scalar_type(), name);
  request.name = std::move(name);
  request.kind = kind;
  request.sizes = dense.sizes().vec();
  // Strides of sizes of one mean nothing, and differ between tensors that are equal.
  if (!dense.is_contiguous()) request.strides = dense.strides().vec();
  request.input = dense.const_data_ptr();
  request.keep = std::make_shared<at::Tensor>(dense);
  return request;
}

}  // namespace

at::Tensor TensorWork::wait() {
  work_.wait();
  const c10::NoGradGuard no_grad;
  if (!dense_.is_same(tensor_)) {
    tensor_.copy_(dense_);
  } else {
    tensor_.unsafeGetTensorImpl()->bump_version();
  }
  return tensor_;
}

TensorWork allreduce_async(Context& context, at::Tensor tensor, std::string name, ReduceOp op) {
  require_reducible(tensor, name);
  const c10::NoGradGuard no_grad;
  at::Tensor dense = host_form(tensor);
  Request request = request_for(dense, std::move(name), RequestKind::allreduce);
  request.op = op;
  request.input = request.output = dense.mutable_data_ptr();
  return {context.engine().submit(std::move(request)), std::move(tensor), std::move(dense)};
}

TensorWork broadcast_async(Context& context, at::Tensor tensor, std::string name, Rank root) {
  require_reducible(tensor, name);
  const c10::NoGradGuard no_grad;
  at::Tensor dense = host_form(tensor);
  Request request = request_for(dense, std::move(name), RequestKind::broadcast);
  request.root = root;
  request.input = request.output = dense.mutable_data_ptr();
  return {context.engine().submit(std::move(request)), std::move(tensor), std::move(dense)};
}

at::Tensor allreduce_(Context& context, at::Tensor tensor, std::string name, ReduceOp op) {
  return allreduce_async(context, std::move(tensor), std::move(name), op).wait();
}

at::Tensor broadcast_(Context& context, at::Tensor tensor, std::string name, Rank root) {
  return broadcast_async(context, std::move(tensor), std::move(name), root).wait();
}

at::Tensor allgather(Context& context, const at::Tensor& tensor, std::string name) {
  require_reducible(tensor, name);
  if (tensor.dim() == 0) {
    throw UsageError("tensor '" + name + "' has no dimension to gather along; use unsqueeze(0)");
  }
  const c10::NoGradGuard no_grad;
  const at::Tensor dense = host_form(tensor.contiguous());
  Request request = request_for(dense, std::move(name), RequestKind::allgather);
  request.strides.clear();
  Work work = context.engine().submit(std::move(request));
  work.wait();
  const auto bytes = work.result();
  std::vector<std::int64_t> sizes = dense.sizes().vec();
  std::size_t row = dense.element_size();
  for (std::size_t dim = 1; dim < sizes.size(); ++dim) {
    row *= static_cast<std::size_t>(sizes[dim]);
  }
  sizes[0] = row == 0 ? 0 : static_cast<std::int64_t>(bytes.size() / row);
  at::Tensor gathered = at::empty(sizes, dense.options());
  if (!bytes.empty()) {
    std::memcpy(gathered.mutable_data_ptr(), bytes.data(), bytes.size());
  }
  return gathered.to(tensor.device());
}

std::vector<double> allreduce_metrics(Context& context, std::vector<double> values, std::string name, ReduceOp op) {
  const auto shared = std::make_shared<std::vector<double>>(std::move(values));
  Request request;
  request.name = std::move(name);
  request.dtype = DType::f64;
  request.sizes = {static_cast<std::int64_t>(shared->size())};
  request.op = op;
  request.input = shared->data();
  request.output = shared->data();
  request.keep = shared;
  context.engine().submit(std::move(request)).wait();
  return *shared;
}

}  // namespace kolo

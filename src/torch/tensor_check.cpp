#include "torch/tensor_check.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "torch/dtype.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// Tensors that stand for others, and have no memory of their own.
bool is_wrapper(const at::Tensor& tensor) {
  using c10::DispatchKey;
  return !tensor.has_storage() || tensor.key_set().has_any(c10::DispatchKeySet(
                                      {DispatchKey::Python, DispatchKey::Functionalize, DispatchKey::FuncTorchBatched,
                                       DispatchKey::FuncTorchGradWrapper, DispatchKey::Batched}));
}

// As after storage().resize_(0).
bool lacks_memory(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || tensor._is_zerotensor()) return false;
  const std::size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size(),
                                                              static_cast<std::size_t>(tensor.storage_offset()));
  return tensor.storage().nbytes() < needed || tensor.storage().data() == nullptr;
}

}  // namespace

bool may_overlap(const at::Tensor& tensor) {
  if (tensor.numel() < 2 || tensor.is_non_overlapping_and_dense()) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) > 1) dims.emplace_back(tensor.stride(dim), tensor.size(dim));
  }
  std::ranges::sort(dims);
  std::int64_t last = 0;  // the place of the last element of the dimensions so far
  for (const auto& [stride, size] : dims) {
    if (stride <= last) return true;
    last += stride * (size - 1);
  }
  return false;
}

std::string trouble_with(const at::Tensor& tensor, Access access) {
  if (!tensor.defined()) return "is undefined";
  if (tensor.is_nested()) return "is nested; kolo supports dense tensors only";
  if (tensor.layout() == c10::kMkldnn) return "has oneDNN's layout; use to_dense()";
  if (tensor.layout() != c10::kStrided) return "is sparse; use to_dense()";
  if (tensor.is_quantized()) return "is quantized; use dequantize() or int_repr()";
  if (tensor.is_complex()) return "is complex; use view_as_real()";
  if (!is_reducible(tensor.device())) {
    return "is on device " + tensor.device().str() + "; kolo supports CPU and CUDA tensors";
  }
  if (!find_dtype(tensor.scalar_type())) {
    return std::string("has type ") + c10::toString(tensor.scalar_type()) + ", which kolo does not reduce";
  }
  if (is_wrapper(tensor)) return "wraps another tensor (vmap, functionalization, ...), whose memory kolo cannot access";
  if (lacks_memory(tensor)) return "has less memory than elements: its storage was resized";
  if (access == Access::read) return {};
  if (tensor._is_zerotensor()) return "is a constant zero that cannot be written; use clone()";
  if (may_overlap(tensor)) {
    return "has elements that overlap (sizes " + c10::str(tensor.sizes()) + ", strides " + c10::str(tensor.strides()) +
           "), as after expand(); use clone()";
  }
  return {};
}

std::string trouble_with_graph(const at::Tensor& tensor) {
  if (c10::GradMode::is_enabled() && tensor.requires_grad()) {
    return "requires a gradient, and kolo does not differentiate collectives; pass detach(), or call under NoGradGuard";
  }
  if (tensor._fw_grad(/*level=*/0).defined()) {
    return "has a forward gradient, and kolo does not differentiate collectives; pass detach()";
  }
  return {};
}

}  // namespace kolo

#include "torch/group_update.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_real.h>
#include <c10/util/StringUtil.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "kolo/error.h"
#include "kolo/spi/strides.h"
#include "torch/dtype.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// Smaller tensors are not worth waking other threads for.
constexpr std::int64_t kParallelElements = 1 << 16;

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes() || a.device() != b.device()) {
    return false;
  }
  for (std::int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) > 1 && a.stride(dim) != b.stride(dim)) {
      return false;
    }
  }
  return true;
}

// Element i of the tensor lies where element i of the weight does, and its bytes are its value. Undefined: yes.
bool lies_as_weight(const at::Tensor& tensor, const at::Tensor& weight) {
  return !tensor.defined() || (tensor.layout() == c10::kStrided && same_layout(weight, tensor) && is_plain(tensor));
}

// The weight is dense, and the other tensors lie as it does.
bool is_flat(const Updated& tensors) {
  const at::Tensor& weight = tensors.weight;
  return weight.is_non_overlapping_and_dense() && is_plain(weight) && lies_as_weight(tensors.gradient, weight) &&
         lies_as_weight(tensors.first, weight) && lies_as_weight(tensors.second, weight);
}

bool is_computed(c10::ScalarType type) {
  return type == c10::kFloat || type == c10::kDouble || type == c10::kHalf || type == c10::kBFloat16;
}

// The type that holds the values of all tensors.
c10::ScalarType common_type(const Updated& tensors) {
  c10::ScalarType type = tensors.weight.scalar_type();
  for (const at::Tensor* tensor : {&tensors.gradient, &tensors.first, &tensors.second}) {
    if (tensor->defined()) type = c10::promoteTypes(type, tensor->scalar_type());
  }
  return type;
}

// All tensors dense, of one type, and alike in memory: each is the tensor itself where that is so, else a copy.
Updated dense_form(const Updated& tensors) {
  const at::Tensor& weight = tensors.weight;
  const c10::ScalarType type = common_type(tensors);
  const bool is_dense = weight.is_non_overlapping_and_dense();
  const c10::DimVector strides = is_dense ? c10::DimVector(weight.strides()) : c10::contiguous_strides(weight.sizes());
  const auto copy_of = [&](const at::Tensor& tensor) {
    return at::empty_strided(weight.sizes(), strides, weight.options().dtype(type)).copy_(tensor);
  };
  Updated dense;
  dense.weight = is_dense && weight.scalar_type() == type && is_plain(weight) ? weight : copy_of(weight);
  const auto form_of = [&](const at::Tensor& tensor) {
    return lies_as_weight(tensor, dense.weight) ? tensor : copy_of(tensor);
  };
  dense.gradient = form_of(tensors.gradient);
  dense.first = form_of(tensors.first);
  dense.second = form_of(tensors.second);
  return dense;
}

void copy_all_back(const Updated& dense, const Updated& tensors) {
  const auto copy_back = [](const at::Tensor& from, const at::Tensor& to) {
    if (from.defined() && !from.is_same(to)) to.copy_(from);
  };
  copy_back(dense.weight, tensors.weight);
  copy_back(dense.first, tensors.first);
  copy_back(dense.second, tensors.second);
}

// Calls `body(from, to)` for parts of a dense tensor's elements, in LibTorch's threads. at::parallel_for() would do the
// same only in a file that is compiled with OpenMP; the iterator's loop is compiled in LibTorch.
template <class Body>
void in_parts(const at::Tensor& tensor, const Body& body) {
  const at::Tensor line = tensor.as_strided({tensor.numel()}, {1});
  const auto* const begin = static_cast<const char*>(line.const_data_ptr());
  const auto bytes = static_cast<std::size_t>(line.element_size());
  auto iterator = at::TensorIteratorConfig().add_output(line).check_all_same_dtype(false).resize_outputs(false).build();
  iterator.for_each([&](char** data, const std::int64_t* /*strides*/, std::int64_t count, std::int64_t rows) {
    const std::size_t from = static_cast<std::size_t>(data[0] - begin) / bytes;
    body(from, from + static_cast<std::size_t>(count * rows));
  });
}

// Whether two of them have a byte in common.
bool overlap(const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<const std::byte*, std::size_t>> places;  // and how many bytes
  places.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0)
      places.emplace_back(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
  }
  std::sort(places.begin(), places.end());
  const auto reaches = [](const auto& one, const auto& next) { return one.first + one.second > next.first; };
  return std::adjacent_find(places.begin(), places.end(), reaches) != places.end();
}

void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

}  // namespace

void UpdatedList::add(const Updated& tensors) {
  weights.push_back(tensors.weight);
  gradients.push_back(tensors.gradient);
  if (tensors.first.defined()) firsts.push_back(tensors.first);
  if (tensors.second.defined()) seconds.push_back(tensors.second);
}

std::string overlap_text(const std::string& name, const at::Tensor& tensor) {
  return "step() of a fused optimizer: elements of " + name + " share memory (sizes " + c10::str(tensor.sizes()) +
         ", strides " + c10::str(tensor.strides()) +
         "), so they cannot be updated one by one; create the parameter by clone()";
}

bool is_launched(const StepLauncher* launcher, const at::Tensor& weight, const at::Tensor& gradient) {
  return launcher != nullptr && !weight.is_cpu() && weight.device().index() == launcher->device() &&
         weight.scalar_type() == c10::kFloat && is_flat({weight, gradient, {}, {}});
}

std::vector<StepTensor> step_tensors(const std::vector<at::Tensor>& parameters) {
  std::vector<StepTensor> tensors(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    tensors[i].count = static_cast<std::size_t>(parameters[i].numel());
  return tensors;
}

void GroupUpdate::add(std::size_t index, Updated tensors, std::int64_t number) {
  const at::Tensor& weight = tensors.weight;
  if (is_launched(where_.launcher, weight, tensors.gradient) && is_flat(tensors)) {
    auto& batch = launched_[{turn_of(index), number}];
    if (batch.empty()) batch = step_tensors(parameters_);
    batch[index] = {batch[index].count, tensors.gradient.const_data_ptr(), data_of(weight), data_of(tensors.first),
                    data_of(tensors.second)};
    launched_on_ = weight.device();
    weight.unsafeGetTensorImpl()->bump_version();
    return;
  }
  if (where_.skip != nullptr) {
    throw UsageError("step_async() of a fused optimizer: parameter " + std::to_string(index) + " of group " +
                     std::to_string(where_.group) + " cannot be updated by kolo's kernels; use GradScaler::step()");
  }
  if (tensors.gradient.layout() != c10::kStrided) tensors.gradient = tensors.gradient.to_dense();
  if (weight.is_complex()) {  // each is two real parameters, as in PyTorch
    tensors.gradient = tensors.gradient.resolve_conj();
    for (at::Tensor* tensor : {&tensors.weight, &tensors.gradient, &tensors.first}) {
      if (tensor->defined()) *tensor = at::view_as_real(*tensor);
    }
  }
  require_updatable(tensors, index);
  if (weight.is_cpu()) {
    on_host(tensors, number);
  } else {
    if (where_.gradient_scale != 1) tensors.gradient = tensors.gradient.mul(where_.gradient_scale);
    on_device(tensors, number);
  }
}

void GroupUpdate::require_updatable(const Updated& tensors, std::size_t index) const {
  const auto name = [&] { return "parameter " + std::to_string(index) + " of group " + std::to_string(where_.group); };
  const c10::ScalarType type = common_type(tensors);
  if (!is_computed(type)) {
    throw UsageError("step() of a fused optimizer: " + name() + " has type " + c10::toString(type) +
                     "; FusedSGD and FusedAdamW update Float, Double, Half and BFloat16");
  }
  for (const at::Tensor* tensor : {&tensors.weight, &tensors.first, &tensors.second}) {
    if (tensor->defined() && may_overlap(*tensor)) throw UsageError(overlap_text(name(), *tensor));
  }
}

void GroupUpdate::on_host(const Updated& tensors, std::int64_t number) const {
  const bool flat = is_flat(tensors);
  const Updated dense = flat ? tensors : dense_form(tensors);
  const UpdateArrays arrays{to_dtype(dense.weight.scalar_type(), "parameter"),
                            data_of(dense.weight),
                            data_of(dense.first),
                            data_of(dense.second),
                            dense.gradient.const_data_ptr(),
                            static_cast<std::size_t>(dense.weight.numel()),
                            where_.gradient_scale};
  tensors.weight.unsafeGetTensorImpl()->bump_version();
  if (dense.weight.numel() < kParallelElements) {
    rule_.on_host(arrays, number);
  } else {
    in_parts(dense.weight, [&](std::size_t from, std::size_t to) { rule_.on_host(part_of(arrays, from, to), number); });
  }
  if (!flat) copy_all_back(dense, tensors);
}

void GroupUpdate::on_device(const Updated& tensors, std::int64_t number) {
  const at::Tensor& weight = tensors.weight;
  if (is_flat(tensors)) {
    by_torch_[{weight.device().type(), weight.device().index(), weight.scalar_type(), number}].add(tensors);
    return;
  }
  const Updated dense = dense_form(tensors);
  UpdatedList one;
  one.add(dense);
  rule_.by_torch(one, number);
  copy_all_back(dense, tensors);
}

std::size_t GroupUpdate::turn_of(std::size_t index) {
  if (!some_overlap_) some_overlap_ = overlap(parameters_);
  return *some_overlap_ ? index : 0;
}

void GroupUpdate::run() {
  for (const auto& [key, tensors] : launched_) {
    rule_.launch(*where_.launcher, {where_.group, tensors, where_.gradient_scale, where_.skip}, key.second,
                 to_stream(current_stream(*launched_on_)));
  }
  for (const auto& [kind, list] : by_torch_) rule_.by_torch(list, std::get<std::int64_t>(kind));
}

}  // namespace kolo

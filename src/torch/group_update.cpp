#include "torch/group_update.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "kolo/error.h"
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

// Element i of one lies where element i of the others does.
bool is_flat(const Updated& tensors) {
  const at::Tensor& weight = tensors.weight;
  const auto plain = [](const at::Tensor& tensor) { return !tensor.defined() || is_plain(tensor); };
  return plain(weight) && plain(tensors.gradient) && plain(tensors.first) && plain(tensors.second) &&
         weight.is_non_overlapping_and_dense() && tensors.gradient.layout() == c10::kStrided &&
         same_layout(weight, tensors.gradient) && (!tensors.first.defined() || same_layout(weight, tensors.first)) &&
         (!tensors.second.defined() || same_layout(weight, tensors.second));
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
  const bool flat = is_flat(tensors);
  if (flat && is_launched(where_.launcher, weight, tensors.gradient)) {
    auto& batch = launched_[{turn_of(index), number}];
    if (batch.empty()) batch = step_tensors(parameters_);
    batch[index] = {batch[index].count, tensors.gradient.const_data_ptr(), data_of(weight), data_of(tensors.first),
                    data_of(tensors.second)};
    launched_on_ = weight.device();
    weight.unsafeGetTensorImpl()->bump_version();
    return;
  }
  if (where_.skip != nullptr) {
    throw UsageError("an optimizer's step that the device decides on: tensor " + std::to_string(index) + " of group " +
                     std::to_string(where_.group) + " is not one that kolo's kernels update; use GradScaler::step()");
  }
  if (where_.gradient_scale != 1) tensors.gradient = tensors.gradient.mul(where_.gradient_scale);
  const auto type = weight.scalar_type();
  if (flat && !weight.is_cpu()) {
    by_torch_[{weight.device().type(), weight.device().index(), type, number}].add(tensors);
  } else if (!flat || (type != c10::kFloat && type != c10::kDouble)) {
    rule_.generic(tensors, number);
  } else if (weight.numel() >= kParallelElements && at::get_num_threads() > 1) {
    UpdatedList one;
    one.add(tensors);
    rule_.by_torch(one, number);
  } else {
    rule_.on_host(tensors, number);
    weight.unsafeGetTensorImpl()->bump_version();
  }
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

// The part of GradientBinding that finds gradients which the program holds too: views of a flat buffer, tensors that it
// keeps to clear them. param.grad() must stay that tensor, so the result is copied into it. A gradient that nobody else
// holds becomes a view of the result, without a copy.
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "torch/gradient_binding.h"

namespace kolo {
namespace {

struct Sharing {
  std::size_t known = 0;  // tensors of this table on one storage
  std::vector<GradientSlot*> slots;
  bool held = false;
};

using Extent = std::tuple<const std::byte*, const std::byte*, const GradientSlot*>;

}  // namespace

std::pair<const std::byte*, const std::byte*> GradientBinding::extent_of(const at::Tensor& gradient) {
  const auto* const begin = static_cast<const std::byte*>(gradient.const_data_ptr());
  std::int64_t last = 0;
  for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) last += (gradient.size(dim) - 1) * gradient.stride(dim);
  return {begin, begin + static_cast<std::size_t>(last + 1) * gradient.element_size()};
}

// Autograd may cut several gradients out of one storage: that storage is the program's too if it has more tensors than
// these gradients. A parameter of several wrapped optimizers is left out: the others still read its gradient.
void GradientBinding::find_held_gradients() {
  if (results_are_contributions() && !some_are_copies_) return;  // param.grad() stays what it is everywhere
  std::unordered_map<const c10::StorageImpl*, Sharing> storages;
  for (const auto& slot : slots_) {
    const at::Tensor& gradient = slot->parameter.grad();
    if (!gradient.defined() || gradient.layout() != c10::kStrided || gradient.requires_grad()) continue;
    if (gradient.sizes() != slot->parameter.sizes()) continue;
    slot->held = slot->grad_has_other_owner() && is_of_this_only(*slot);
    if (!slot->held && gradient.storage().use_count() == 1) continue;
    Sharing& sharing = storages[gradient.storage().unsafeGetStorageImpl()];
    sharing.known += slot->tensors_on_storage_of_grad();
    sharing.slots.push_back(slot.get());
    sharing.held |= slot->held;
  }
  for (auto& [storage, sharing] : storages) {
    const std::size_t tensors = sharing.slots.front()->parameter.grad().storage().use_count();
    if (!sharing.held && tensors <= sharing.known) continue;
    for (GradientSlot* const slot : sharing.slots) slot->held = slot->held || is_of_this_only(*slot);
    some_are_held_ = true;
  }
  refuse_overlaps();
}

// Two results cannot be copied into the same memory. (With one rank, what the program has made of it stays.)
void GradientBinding::refuse_overlaps() {
  if (engine_.size() == 1) return;
  std::vector<Extent> extents;
  for (const auto& slot : slots_) {
    if (!slot->held || slot->parameter.numel() == 0) continue;
    const auto [begin, end] = extent_of(slot->parameter.grad());
    extents.emplace_back(begin, end, slot.get());
  }
  std::ranges::sort(extents, {}, [](const Extent& extent) { return std::get<0>(extent); });
  const auto overlap = std::ranges::adjacent_find(
      extents, [](const Extent& one, const Extent& next) { return std::get<1>(one) > std::get<0>(next); });
  if (overlap == extents.end()) return;
  spoil("the gradients of '" + std::get<2>(overlap[0])->info.name + "' and '" + std::get<2>(overlap[1])->info.name +
        "' overlap in memory that the program holds too, so their reduced values cannot both be kept there. Give each "
        "parameter a gradient of its own (clone()), or none before backward()");
}

}  // namespace kolo

// The part of GradientBinding that finds gradients which the program holds too: views of a flat buffer, and tensors
// that the program keeps and clears. param.grad() must stay that tensor, so the result is copied into it. All other
// gradients become views of the result, without a copy.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch/gradient_binding.h"
#include "torch/tensor_check.h"

namespace kolo {
namespace {

std::size_t use_count(c10::TensorImpl* tensor) { return c10::raw::intrusive_ptr::use_count(tensor); }

// The gradients of this table that lie on one storage, and how much of its use count they explain.
struct Sharing {
  std::vector<GradientSlot*> slots;
  std::unordered_map<c10::TensorImpl*, std::size_t> gradients;  // references that this table holds
  std::unordered_map<c10::TensorImpl*, std::size_t> bases;      // of gradients that are views: how many
  std::size_t contributed = 0;                                  // tensors that this table holds beside gradients
  bool foreign = false;                                         // memory that LibTorch did not allocate

  void add(GradientSlot& slot) {
    const at::Tensor& gradient = slot.parameter.grad();
    slots.push_back(&slot);
    const auto [references, fresh] = gradients.try_emplace(gradient.unsafeGetTensorImpl(), 0);
    references->second += slot.references_to_grad();
    if (fresh && gradient.is_view()) ++bases[gradient._base().unsafeGetTensorImpl()];
    contributed += slot.tensors_beside_grad();
    foreign |= slot.grad_is_foreign();
  }
  // A base that only the views keep alive is not the program's.
  [[nodiscard]] bool has_other_owner() const {
    const auto is_ours = [this](const auto& base) {
      return !gradients.contains(base.first) && use_count(base.first) <= base.second;
    };
    const auto own_bases = static_cast<std::size_t>(std::ranges::count_if(bases, is_ours));
    const std::size_t known = gradients.size() + contributed + own_bases;
    const auto is_kept = [](const auto& gradient) { return use_count(gradient.first) > gradient.second; };
    const auto owners = static_cast<std::size_t>(slots.front()->parameter.grad().storage().use_count());
    return foreign || owners > known || std::ranges::any_of(gradients, is_kept);
  }
};

using Extent = std::tuple<const std::byte*, const std::byte*, const GradientSlot*>;
using Pair = std::pair<const GradientSlot*, const GradientSlot*>;

// The first two gradients that have an element in common. Columns of one matrix have none, although their extents
// overlap. `end`: of all extents, which ascend.
std::optional<Pair> find_overlap(std::span<const Extent> extents, const std::byte* end) {
  const std::byte* const begin = std::get<0>(extents.front());
  const auto element = static_cast<std::size_t>(std::get<2>(extents.front())->parameter.grad().element_size());
  const auto elements = static_cast<std::int64_t>(static_cast<std::size_t>(end - begin) / element);
  const at::Tensor owners = at::zeros({elements}, at::kInt);  // of each element: the number of its gradient
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto& [from, unused, slot] = extents[i];
    const at::Tensor& gradient = slot->parameter.grad();
    const auto offset = static_cast<std::size_t>(from - begin);
    if (static_cast<std::size_t>(gradient.element_size()) != element || offset % element != 0)
      return Pair(std::get<2>(extents.front()), slot);
    const at::Tensor mine =
        owners.as_strided(gradient.sizes(), gradient.strides(), static_cast<std::int64_t>(offset / element));
    const auto owner = mine.max().item<std::int32_t>();
    if (owner > 0) return Pair(std::get<2>(extents[static_cast<std::size_t>(owner) - 1]), slot);
    mine.fill_(static_cast<std::int32_t>(i) + 1);
  }
  return std::nullopt;
}

}  // namespace

std::pair<const std::byte*, const std::byte*> GradientBinding::extent_of(const at::Tensor& gradient) {
  const auto* const begin = static_cast<const std::byte*>(gradient.const_data_ptr());
  std::int64_t last = 0;
  for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) last += (gradient.size(dim) - 1) * gradient.stride(dim);
  return {begin, begin + static_cast<std::size_t>(last + 1) * gradient.element_size()};
}

// Autograd may cut several gradients out of one storage, or make one tensor for two parameters. So
// the program holds gradients only if their storage has owners beside this table. Skips gradients
// that other wrapped optimizers still read, and gradients whose elements overlap.
void GradientBinding::find_held_gradients() {
  if (results_are_contributions() && !some_are_copies_) return;  // param.grad() stays what it is everywhere
  std::unordered_map<const c10::StorageImpl*, Sharing> storages;
  for (const auto& slot : slots_) {
    const at::Tensor& gradient = slot->parameter.grad();
    if (!gradient.defined() || gradient.layout() != c10::kStrided || gradient.requires_grad()) continue;
    if (gradient.sizes() != slot->parameter.sizes() || may_overlap(gradient)) continue;
    const bool shared = gradient.use_count() > slot->references_to_grad() || gradient.storage().use_count() > 1;
    if (shared || slot->grad_is_foreign()) storages[gradient.storage().unsafeGetStorageImpl()].add(*slot);
  }
  for (const auto& [storage, sharing] : storages) {
    if (!sharing.has_other_owner()) continue;
    for (GradientSlot* const slot : sharing.slots) slot->held = is_of_this_only(*slot);
    some_are_held_ = true;
  }
  refuse_overlaps();
}

// Two results cannot be copied into the same elements. (With one rank, what the program has made of it stays.)
void GradientBinding::refuse_overlaps() {
  if (engine_.size() == 1) return;
  std::vector<Extent> extents;
  for (const auto& slot : slots_) {
    if (!slot->held || slot->parameter.numel() == 0) continue;
    const auto [begin, end] = extent_of(slot->parameter.grad());
    extents.emplace_back(begin, end, slot.get());
  }
  std::ranges::sort(extents, {}, [](const Extent& extent) { return std::get<0>(extent); });
  for (std::size_t first = 0; first < extents.size();) {  // extents that overlap one another, one cluster at a time
    std::size_t last = first + 1;
    const std::byte* end = std::get<1>(extents[first]);
    for (; last < extents.size() && std::get<0>(extents[last]) < end; ++last) {
      end = std::max(end, std::get<1>(extents[last]));
    }
    const auto overlap =
        last - first > 1 ? find_overlap(std::span(extents).subspan(first, last - first), end) : std::nullopt;
    if (overlap) {
      spoil("the gradients of '" + overlap->first->info.name + "' and '" + overlap->second->info.name +
            "' overlap in memory that the program also holds, so that memory cannot hold both reduced values. Give "
            "each parameter its own gradient (clone()), or no gradient before backward()");
    }
    first = last;
  }
}

}  // namespace kolo

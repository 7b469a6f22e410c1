#include "torch/leftovers.h"

#include <algorithm>

namespace kolo {

Leftovers& Leftovers::instance() {
  static auto* const all = new Leftovers();  // also for optimizers that go at the end of the process
  return *all;
}

void Leftovers::add(const at::Tensor& gradient) {
  if (!gradient.defined() || gradient.is_inference()) return;
  const std::scoped_lock lock(mutex_);
  if (all_.size() >= most_) forget_what_has_gone();
  all_.insert_or_assign(gradient.unsafeGetTensorImpl(),
                        Leftover{weak(gradient), static_cast<std::uint32_t>(gradient._version())});
}

void Leftovers::forget_what_has_gone() {
  std::erase_if(all_, [](const auto& each) { return each.second.gradient.expired(); });
  most_ = std::max<std::size_t>(64, 2 * all_.size());
}

Leftovers::State Leftovers::state_of(const at::Tensor& gradient) const {
  if (!gradient.defined() || gradient.is_inference()) return State::none;
  const std::scoped_lock lock(mutex_);
  const auto found = all_.find(gradient.unsafeGetTensorImpl());
  if (found == all_.end()) return State::none;
  return found->second.version == static_cast<std::uint32_t>(gradient._version()) ? State::unchanged : State::changed;
}

}  // namespace kolo

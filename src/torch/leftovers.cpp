#include "torch/leftovers.h"

#include <algorithm>

namespace kolo {

Leftovers& Leftovers::instance() {
  static auto* const all = new Leftovers();  // also for optimizers that go at the end of the process
  return *all;
}

void Leftovers::add(const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  const std::scoped_lock lock(mutex_);
  if (all_.size() >= most_) forget_what_has_gone();
  all_.insert_or_assign(gradient.unsafeGetTensorImpl(), weak(gradient));
}

void Leftovers::forget_what_has_gone() {
  std::erase_if(all_, [](const auto& each) { return each.second.expired(); });
  most_ = std::max<std::size_t>(64, 2 * all_.size());
}

bool Leftovers::contains(const at::Tensor& gradient) const {
  if (!gradient.defined()) return false;
  const std::scoped_lock lock(mutex_);
  return all_.contains(gradient.unsafeGetTensorImpl());
}

}  // namespace kolo

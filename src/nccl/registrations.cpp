#include "nccl/registrations.h"

#include <algorithm>

namespace kolo::nccl {

bool Registrations::is_window(const void* memory) const {
  const auto found = known_.find(memory);
  return found != known_.end() && found->second.window;
}

bool Registrations::any_window() const {
  return std::ranges::any_of(known_, [](const auto& each) { return each.second.window; });
}

void Registrations::end(const NcclApi& api, Comm comm, const Known& known) noexcept {
  (void)(known.window ? api.deregister_window(comm, known.handle) : api.deregister_buffer(comm, known.handle));
}

void Registrations::end(const NcclApi& api, Comm comm, const void* memory) noexcept {
  const auto found = known_.find(memory);
  if (found == known_.end()) return;
  end(api, comm, found->second);
  known_.erase(found);
}

void Registrations::end_all(const NcclApi& api, Comm comm) noexcept {
  for (const auto& [memory, known] : known_) end(api, comm, known);
  known_.clear();
}

}  // namespace kolo::nccl

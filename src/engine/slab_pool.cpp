#include "engine/slab_pool.h"

#include <algorithm>
#include <bit>

namespace kolo::engine {
namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kMostSlabs = 4096;  // a slab is a mapping for each rank of the host, and a process may have 65530

}  // namespace

// The smallest that is free, or that these names alone keep in use.
std::shared_ptr<Slab> SlabPool::find(const std::vector<std::string>& names, std::size_t bytes) const {
  const auto found = free_.lower_bound(Key{bytes, 0});
  auto best = found == free_.end() ? nullptr : found->second;
  std::map<Key, std::pair<std::shared_ptr<Slab>, std::size_t>> dropped;
  for (const auto& name : names) {
    const auto claim = claims_.find(name);
    if (claim == claims_.end()) continue;
    const auto& slab = claim->second;
    auto& [same, count] = dropped[Key{slab->bytes, slab->id}];
    same = slab;
    ++count;
  }
  for (const auto& [key, row] : dropped) {
    const auto& [slab, count] = row;
    if (count < slab->names.size() || slab->bytes < bytes) continue;
    if (best == nullptr || key < Key{best->bytes, best->id}) best = slab;
  }
  return best;
}

bool SlabPool::would_allocate(const std::vector<std::string>& names, std::size_t bytes) const {
  return find(names, bytes) == nullptr;
}

std::shared_ptr<Slab> SlabPool::claim(const std::vector<std::string>& names, std::size_t bytes) {
  auto slab = find(names, bytes);
  drop_claims(names);
  if (slab != nullptr) {
    let_go(std::shared_ptr<Slab>(slab));
  } else {
    const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
    if (size <= most_bytes_) make_room(size);
    slab = allocate(size);
  }
  if (slab->bytes <= most_bytes_) keep(slab, names);
  return slab;
}

std::shared_ptr<Slab> SlabPool::allocate(std::size_t size) {
  auto slab = std::make_shared<Slab>();
  slab->buffer = std::move(communicator_.allocate(std::span(&size, 1), timeout_).front());
  slab->bytes = size;
  slab->id = allocations_++;
  return slab;
}

void SlabPool::keep(const std::shared_ptr<Slab>& slab, const std::vector<std::string>& names) {
  slab->last_used = uses_++;
  by_use_[slab->last_used] = slab;
  bytes_ += slab->bytes;
  slab->names.insert(names.begin(), names.end());
  for (const auto& name : names) claims_[name] = slab;
}

void SlabPool::drop_claims(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto claim = claims_.find(name);
    if (claim == claims_.end()) continue;
    const auto slab = claim->second;
    claims_.erase(claim);
    slab->names.erase(name);
    if (slab->names.empty()) free_[Key{slab->bytes, slab->id}] = slab;
  }
}

void SlabPool::let_go(const std::shared_ptr<Slab>& slab) {
  by_use_.erase(slab->last_used);
  bytes_ -= slab->bytes;
  free_.erase(Key{slab->bytes, slab->id});
  for (const auto& name : slab->names) claims_.erase(name);
  slab->names.clear();
}

void SlabPool::make_room(std::size_t size) {
  while (!by_use_.empty() && (bytes_ + size > most_bytes_ || by_use_.size() >= kMostSlabs)) {
    let_go(std::shared_ptr<Slab>(by_use_.begin()->second));
  }
}

}  // namespace kolo::engine

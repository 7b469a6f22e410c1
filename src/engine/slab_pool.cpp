#include "engine/slab_pool.h"

#include <algorithm>
#include <bit>

namespace kolo::engine {
namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kMostFreeBytes = std::size_t{1} << 30;
constexpr std::size_t kMostSlabs = 4096;  // a program that never repeats a name must not grow for ever

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
    if (count < slab->claims || slab->bytes < bytes) continue;
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
  if (slab == nullptr) {
    trim();
    slab = allocate(bytes);
  } else {
    free_.erase(Key{slab->bytes, slab->id});
    free_bytes_ -= slab->bytes;
    by_use_.erase(slab->last_used);
  }
  slab->last_used = uses_++;
  slab->claims = names.size();
  by_use_[slab->last_used] = slab;
  for (const auto& name : names) claims_[name] = slab;
  return slab;
}

std::shared_ptr<Slab> SlabPool::allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  auto slab = std::make_shared<Slab>();
  slab->buffer = std::move(communicator_.allocate(std::span(&size, 1), timeout_).front());
  slab->bytes = size;
  slab->id = allocations_++;
  return slab;
}

void SlabPool::drop_claims(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto claim = claims_.find(name);
    if (claim == claims_.end()) continue;
    const auto slab = claim->second;
    claims_.erase(claim);
    if (--slab->claims > 0) continue;
    free_[Key{slab->bytes, slab->id}] = slab;
    free_bytes_ += slab->bytes;
  }
}

void SlabPool::let_go(const std::shared_ptr<Slab>& slab) {
  by_use_.erase(slab->last_used);
  if (slab->claims == 0) {
    free_.erase(Key{slab->bytes, slab->id});
    free_bytes_ -= slab->bytes;
  } else {
    std::erase_if(claims_, [&](const auto& row) { return row.second == slab; });
  }
}

// The oldest go first: free ones above the limit of bytes, and any above the limit of their number.
void SlabPool::trim() {
  for (auto row = by_use_.begin(); row != by_use_.end() && free_bytes_ > kMostFreeBytes;) {
    const auto slab = row++->second;
    if (slab->claims == 0) let_go(slab);
  }
  while (by_use_.size() >= kMostSlabs) let_go(std::shared_ptr<Slab>(by_use_.begin()->second));
}

}  // namespace kolo::engine

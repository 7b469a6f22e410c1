#include "engine/gradient_arena.h"

#include <algorithm>
#include <map>

#include "base/cache_line.h"

namespace kolo::engine {

std::vector<GradientArena::Size> GradientArena::sizes_of(const std::vector<GradientInfo>& table, std::size_t from) {
  std::map<std::size_t, std::size_t> counts;
  for (const auto& info : table) {
    if (info.bytes() >= std::max<std::size_t>(from, 1)) ++counts[info.bytes()];
  }
  std::vector<Size> sizes;
  std::size_t offset = 0;
  for (const auto& [bytes, count] : counts) {
    Size size;
    size.bytes = bytes;
    size.each = base::whole_lines(bytes);
    size.offset = offset;
    size.count = count;
    offset += size.each * size.count;
    sizes.push_back(std::move(size));
  }
  return sizes;
}

std::size_t GradientArena::bytes_for(const std::vector<GradientInfo>& table, std::size_t from) {
  const auto sizes = sizes_of(table, from);
  return sizes.empty() ? 0 : sizes.back().offset + sizes.back().each * sizes.back().count;
}

GradientArena::GradientArena(const std::vector<GradientInfo>& table, std::size_t from,
                             std::unique_ptr<RegisteredBuffer> memory)
    : memory_(std::move(memory)),
      begin_(memory_->data().data()),
      length_(bytes_for(table, from)),
      sizes_(sizes_of(table, from)) {
  std::size_t blocks = 0;
  for (Size& size : sizes_) {
    first_.push_back(blocks);
    blocks += size.count;
    for (std::size_t i = size.count; i > 0; --i) size.free.push_back(size.offset + (i - 1) * size.each);
  }
  blocks_.resize(blocks);
  pinned_.reserve(blocks);
}

bool GradientArena::owns(const void* data) const noexcept {
  const auto* at = static_cast<const std::byte*>(data);
  return at >= begin_ && at < begin_ + length_;
}

GradientArena::Found GradientArena::find(const void* data) noexcept {
  if (!owns(data)) return {};
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - begin_);
  const auto next = std::upper_bound(sizes_.begin(), sizes_.end(), offset,
                                     [](std::size_t at, const Size& size) { return at < size.offset; });
  const auto k = static_cast<std::size_t>(next - sizes_.begin()) - 1;
  Size& size = sizes_[k];
  const std::size_t index = (offset - size.offset) / size.each;
  if (size.offset + index * size.each != offset) return {};
  return {&size, &blocks_[first_[k] + index], offset};
}

void* GradientArena::take(std::size_t bytes) noexcept {
  const std::scoped_lock lock(lock_);
  const auto size = std::lower_bound(sizes_.begin(), sizes_.end(), bytes,
                                     [](const Size& one, std::size_t wanted) { return one.bytes < wanted; });
  if (size == sizes_.end() || size->bytes != bytes || size->free.empty()) return nullptr;
  void* block = begin_ + size->free.back();
  size->free.pop_back();
  find(block).block->in_use = true;
  return block;
}

void GradientArena::give_back(void* block) noexcept {
  const std::scoped_lock lock(lock_);
  const Found found = find(block);
  if (found.block == nullptr || !found.block->in_use) return;
  found.block->in_use = false;
  if (!found.block->pinned) found.size->free.push_back(found.offset);
}

bool GradientArena::pin(const void* data, std::size_t bytes) {
  const std::scoped_lock lock(lock_);
  const Found found = find(data);
  if (found.block == nullptr || !found.block->in_use || found.block->pinned || found.size->bytes != bytes) return false;
  found.block->pinned = true;
  pinned_.push_back(begin_ + found.offset);
  return true;
}

void GradientArena::unpin() {
  const std::scoped_lock lock(lock_);
  for (void* block : pinned_) {
    const Found found = find(block);
    found.block->pinned = false;
    if (!found.block->in_use) found.size->free.push_back(found.offset);
  }
  pinned_.clear();
}

}  // namespace kolo::engine

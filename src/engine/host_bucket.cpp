#include "engine/host_bucket.h"

#include <algorithm>
#include <cstring>

namespace kolo::engine {

std::size_t HostBucket::memory_for(const PlannedBucket& plan, bool has_home) {
  return HostReduction::memory_for(plan) + (has_home ? SegmentedBuffer::table_bytes(plan.tensors.size()) : 0);
}

HostBucket::HostBucket(HostBucketParts parts)
    : Bucket(*parts.plan),
      reduction_(*parts.plan, std::move(parts.reduction)),
      home_(parts.home),
      places_(parts.plan->tensors.size(), nullptr) {
  for (std::size_t slot = 0; slot < tensors().size(); ++slot) {
    const std::size_t end = slot + 1 < tensors().size() ? tensors()[slot + 1].offset : plan().bytes;
    sizes_.push_back(end - tensors()[slot].offset);
    begins_.push_back(tensors()[slot].offset / size_of(plan().dtype));
  }
}

void HostBucket::open(const Stamp& stamp) {
  Bucket::open(stamp);
  std::fill(places_.begin(), places_.end(), nullptr);
  reduction_.open();
}

bool HostBucket::pack(std::size_t slot, const void* data, Stream) {
  const auto& planned = tensors()[slot];
  std::memcpy(reduction_.data().data() + planned.offset, data, planned.bytes);
  reduction_.counters().bytes_copied.add(planned.bytes);
  reduction_.counters().copies.add();
  return take(slot);
}

bool HostBucket::place(std::size_t slot, std::byte* data) {
  if (home_ == nullptr) return pack(slot, data, {});
  places_[slot] = data;
  return take(slot);
}

void HostBucket::clear_missing() {
  if (missing() == 0) return;
  for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
    if (!contributed(slot)) std::memset(reduction_.data().data() + tensors()[slot].offset, 0, sizes_[slot]);
  }
}

void HostBucket::launch(const Reduction& reduction, bool as_void) {
  if (home_ == nullptr) {
    reduction_.start(reduction, flags(as_void));
  } else {
    reduction_.start_segmented(reduction, flags(as_void), {begins_, places_, home_});
  }
}

std::span<std::byte> HostBucket::tensor(std::size_t slot, std::size_t bytes) {
  if (places_[slot] != nullptr) return {places_[slot], bytes};
  return reduction_.data().subspan(tensors()[slot].offset, bytes);
}

}  // namespace kolo::engine

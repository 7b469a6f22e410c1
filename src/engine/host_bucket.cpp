#include "engine/host_bucket.h"

#include <algorithm>
#include <cstring>

namespace kolo::engine {

std::size_t HostBucket::memory_for(const PlannedBucket& plan, bool has_home) {
  return std::max<std::size_t>(plan.bytes, 64) + (has_home ? Scattering::table_bytes(plan.tensors.size()) : 0);
}

HostBucket::HostBucket(HostBucketParts parts)
    : Bucket(*parts.plan), parts_(std::move(parts)), places_(parts_.plan->tensors.size(), nullptr) {
  for (std::size_t slot = 0; slot < tensors().size(); ++slot) {
    const std::size_t end = slot + 1 < tensors().size() ? tensors()[slot + 1].offset : plan().bytes;
    sizes_.push_back(end - tensors()[slot].offset);
    begins_.push_back(tensors()[slot].offset / size_of(plan().dtype));
  }
}

void HostBucket::open(std::uint64_t stamp) {
  Bucket::open(stamp);
  std::fill(places_.begin(), places_.end(), nullptr);
  operation_.reset();
  complete_ = false;
}

bool HostBucket::pack(std::size_t slot, const void* data, Stream) {
  const auto& planned = tensors()[slot];
  std::memcpy(parts_.memory->data().data() + planned.offset, data, planned.bytes);
  parts_.counters->bytes_copied.add(planned.bytes);
  parts_.counters->copies.add();
  return take(slot);
}

bool HostBucket::place(std::size_t slot, std::byte* data) {
  places_[slot] = data;
  return take(slot);
}

void HostBucket::clear_missing() {
  if (missing() == 0) return;
  for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
    if (!contributed(slot)) std::memset(parts_.memory->data().data() + tensors()[slot].offset, 0, sizes_[slot]);
  }
}

void HostBucket::launch(const Reduction& reduction, bool as_void) {
  AllreduceOptions options;
  options.data = parts_.memory->data().data();
  options.count = plan().bytes / size_of(plan().dtype);
  options.dtype = plan().dtype;
  options.op = reduction.op;
  options.prescale = reduction.prescale;
  options.postscale = reduction.postscale;
  options.registered = parts_.memory.get();
  options.flags = flags(as_void);
  parts_.counters->launches.add();
  operation_ = parts_.home == nullptr ? parts_.communicator->start(options)
                                      : parts_.communicator->start_scattered(options, {begins_, places_, parts_.home});
}

bool HostBucket::advance() {
  if (complete_) return true;
  if (operation_ == nullptr || !operation_->advance()) return false;
  operation_.reset();
  complete_ = true;
  return true;
}

std::span<std::byte> HostBucket::tensor(std::size_t slot, std::size_t bytes) {
  if (places_[slot] != nullptr) return {places_[slot], bytes};
  return parts_.memory->data().subspan(tensors()[slot].offset, bytes);
}

std::vector<Rank> HostBucket::waiting_for() const {
  return operation_ == nullptr ? std::vector<Rank>{} : operation_->waiting_for();
}

}  // namespace kolo::engine

#include "engine/bucket.h"

#include <algorithm>
#include <cstring>

namespace kolo::engine {
namespace {

constexpr std::uint64_t kVoid = 1;
constexpr std::size_t kFirstBitsWord = 3;

}  // namespace

std::size_t Bucket::memory_for(const PlannedBucket& plan, bool has_home) {
  return std::max<std::size_t>(plan.bytes, 64) + (has_home ? Scattering::table_bytes(plan.tensors.size()) : 0);
}

Bucket::Bucket(BucketParts parts)
    : parts_(std::move(parts)),
      flags_(kFirstBitsWord + (parts_.plan->tensors.size() + 63) / 64),
      places_(parts_.plan->tensors.size(), nullptr) {
  const auto& tensors = parts_.plan->tensors;
  for (std::size_t slot = 0; slot < tensors.size(); ++slot) {
    const std::size_t end = slot + 1 < tensors.size() ? tensors[slot + 1].offset : parts_.plan->bytes;
    sizes_.push_back(end - tensors[slot].offset);
    begins_.push_back(tensors[slot].offset / size_of(parts_.plan->dtype));
  }
}

void Bucket::open(std::uint64_t stamp) {
  std::fill(flags_.begin(), flags_.end(), 0);
  flags_[1] = stamp;
  flags_[2] = ~stamp;
  std::fill(places_.begin(), places_.end(), nullptr);
  missing_ = sizes_.size();
  operation_.reset();
  complete_ = false;
}

bool Bucket::pack(std::size_t slot, const void* data) {
  const auto& planned = parts_.plan->tensors[slot];
  std::memcpy(parts_.memory->data().data() + planned.offset, data, planned.bytes);
  parts_.counters->bytes_copied.add(planned.bytes);
  parts_.counters->copies.add();
  mark(slot);
  return --missing_ == 0;
}

bool Bucket::place(std::size_t slot, std::byte* data) {
  places_[slot] = data;
  mark(slot);
  return --missing_ == 0;
}

void Bucket::clear_missing() {
  for (std::size_t slot = 0; missing_ > 0 && slot < sizes_.size(); ++slot) {
    if (contributed(slot)) continue;
    std::memset(parts_.memory->data().data() + parts_.plan->tensors[slot].offset, 0, sizes_[slot]);
    --missing_;
  }
}

void Bucket::launch(const Reduction& reduction, bool as_void) {
  if (as_void) flags_[0] |= kVoid;
  AllreduceOptions options;
  options.data = parts_.memory->data().data();
  options.count = parts_.plan->bytes / size_of(parts_.plan->dtype);
  options.dtype = parts_.plan->dtype;
  options.op = reduction.op;
  options.prescale = reduction.prescale;
  options.postscale = reduction.postscale;
  options.registered = parts_.memory.get();
  options.flags = {flags_, kVoid};
  parts_.counters->launches.add();
  operation_ = parts_.home == nullptr ? parts_.communicator->start(options)
                                      : parts_.communicator->start_scattered(options, {begins_, places_, parts_.home});
}

bool Bucket::advance() {
  if (complete_) return true;
  if (operation_ == nullptr || !operation_->advance()) return false;
  operation_.reset();
  complete_ = true;
  return true;
}

bool Bucket::voided() const noexcept { return (flags_[0] & kVoid) != 0; }

bool Bucket::contributed(std::size_t slot) const noexcept {
  return ((flags_[kFirstBitsWord + slot / 64] >> (slot % 64)) & 1) != 0;
}

std::span<std::byte> Bucket::tensor(std::size_t slot, std::size_t bytes) {
  if (places_[slot] != nullptr) return {places_[slot], bytes};
  return parts_.memory->data().subspan(parts_.plan->tensors[slot].offset, bytes);
}

std::vector<Rank> Bucket::waiting_for() const {
  return operation_ == nullptr ? std::vector<Rank>{} : operation_->waiting_for();
}

}  // namespace kolo::engine

#include "engine/bucket.h"

#include <algorithm>

namespace kolo::engine {

Bucket::Bucket(const PlannedBucket& plan, std::size_t own_words)
    : plan_(plan), first_own_(kFirstBitsWord + (plan.tensors.size() + 63) / 64), flags_(first_own_ + own_words) {}

void Bucket::open(std::uint64_t stamp) {
  std::fill(flags_.begin(), flags_.end(), 0);
  flags_[1] = stamp;
  flags_[2] = ~stamp;
  missing_ = plan_.tensors.size();
}

bool Bucket::take(std::size_t slot) noexcept {
  flags_[kFirstBitsWord + slot / 64] |= std::uint64_t{1} << (slot % 64);
  return --missing_ == 0;
}

FlagWords Bucket::flags(bool as_void) noexcept {
  if (as_void) flags_[0] |= kVoid;
  return {flags_, kVoid};
}

}  // namespace kolo::engine

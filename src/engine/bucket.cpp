#include "engine/bucket.h"

#include <algorithm>

#include "base/hash.h"

namespace kolo::engine {

Bucket::Bucket(const PlannedBucket& plan, std::size_t own_words)
    : plan_(plan), first_own_(kFirstBitsWord + (plan.tensors.size() + 63) / 64), flags_(first_own_ + own_words) {}

// The round is the seed of the hash: two fingerprints whose 16 bits collide in one round differ in the next.
std::uint64_t Stamp::word() const noexcept {
  const std::uint64_t hash =
      fingerprint == 0 ? 0 : base::hash64(std::as_bytes(std::span(&fingerprint, 1)), round) << 48;
  return hash | (generation & 0xffff) << 32 | (round & 0xffffffff);
}

// Without a fingerprint both words lack its bits, and agree with any.
std::uint64_t Stamp::complement() const noexcept {
  return ~word() & (fingerprint == 0 ? ~kFingerprintBits : ~std::uint64_t{0});
}

void Bucket::open(const Stamp& stamp) {
  std::fill(flags_.begin(), flags_.end(), 0);
  flags_[1] = stamp.word();
  flags_[2] = stamp.complement();
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

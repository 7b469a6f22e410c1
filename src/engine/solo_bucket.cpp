#include "engine/solo_bucket.h"

#include <algorithm>

namespace kolo::engine {

SoloBucket::SoloBucket(const PlannedBucket& plan, device::Lane* lane)
    : Bucket(plan), lane_(lane), places_(plan.tensors.size(), nullptr) {}

void SoloBucket::open(const Stamp& stamp) {
  Bucket::open(stamp);
  let_go_of_contributions();
}

bool SoloBucket::pack(std::size_t slot, const void* data, Stream ready) {
  places_[slot] = static_cast<std::byte*>(const_cast<void*>(data));  // handed out as it came, and not written to
  const bool known = std::ranges::any_of(streams_, [&](const Stream& each) { return each.handle == ready.handle; });
  if (lane_ != nullptr && !known) streams_.push_back(ready);
  return take(slot);
}

void SoloBucket::let_go_of_contributions() {
  std::ranges::fill(places_, nullptr);
  streams_.clear();
}

void SoloBucket::launch(const Reduction&, bool as_void) { static_cast<void>(flags(as_void)); }

void SoloBucket::hand_to(Stream user) {
  if (voided()) return;
  for (const Stream& stream : streams_) {
    if (stream.handle != user.handle) lane_->events().order(user, stream);
  }
}

std::span<std::byte> SoloBucket::tensor(std::size_t slot, std::size_t bytes) {
  if (places_[slot] == nullptr) return {};
  return {places_[slot], bytes};
}

}  // namespace kolo::engine

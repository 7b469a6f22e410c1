#include "engine/solo_bucket.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/bucket_on_device.h"

namespace kolo::engine {

SoloBucket::SoloBucket(const PlannedBucket& plan, device::Lane* lane, std::chrono::milliseconds timeout)
    : Bucket(plan), lane_(lane), timeout_(timeout), places_(plan.tensors.size(), nullptr) {}

SoloBucket::~SoloBucket() = default;

void SoloBucket::open(std::uint64_t stamp) {
  Bucket::open(stamp);
  std::ranges::fill(places_, nullptr);
  streams_.clear();
}

bool SoloBucket::pack(std::size_t slot, const void* data, Stream ready) {
  places_[slot] = static_cast<std::byte*>(const_cast<void*>(data));  // handed out as it came, and not written to
  const bool known = std::ranges::any_of(streams_, [&](const Stream& each) { return each.handle == ready.handle; });
  if (lane_ != nullptr && !known) streams_.push_back(ready);
  return take(slot);
}

// The stream of whoever read the last zeros goes too.
void SoloBucket::let_go_of_contributions() {
  std::ranges::fill(places_, nullptr);
  const auto reader = std::exchange(reader_, std::nullopt);
  if (!reader) return;
  try {
    lane_->order_after(*reader);
  } catch (const std::exception&) {  // a lost device has no order
  }
}

void SoloBucket::launch(const Reduction&, bool as_void) {
  static_cast<void>(flags(as_void));
  if (missing() > 0 && !as_void) make_zeros();
}

// Anew in each round: whoever was handed them may have written to them.
void SoloBucket::make_zeros() {
  if (lane_ == nullptr) {
    zeros_.resize(plan().bytes);
    for (std::size_t slot = 0; slot < places_.size(); ++slot) {
      const PlannedTensor& tensor = tensors()[slot];
      if (places_[slot] == nullptr)
        std::fill_n(zeros_.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.bytes, std::byte{});
    }
    return;
  }
  if (zeros_on_device_ == nullptr) {
    zeros_on_device_ = std::make_unique<device::BucketMemory>(*lane_, shape_of(plan()), timeout_);
  }
  if (reader_) lane_->order_after(*reader_);
  zeros_on_device_->open();
  zeros_on_device_->seal();
  zeros_on_device_->pack(1);
}

void SoloBucket::hand_to(Stream user) {
  if (lane_ == nullptr || voided()) return;
  for (const Stream& stream : streams_) {
    if (stream.handle != user.handle) lane_->events().order(user, stream);
  }
  if (missing() == 0) return;
  lane_->order_before(user);
  reader_ = user;
}

std::span<std::byte> SoloBucket::tensor(std::size_t slot, std::size_t bytes) {
  if (places_[slot] != nullptr) return {places_[slot], bytes};
  std::byte* const zeros = lane_ == nullptr ? zeros_.data() : zeros_on_device_->data();
  return {zeros + tensors()[slot].offset, bytes};
}

}  // namespace kolo::engine

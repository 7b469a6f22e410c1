#include "engine/bucket_on_device.h"

namespace kolo::engine {
namespace {

device::BucketShape shape_of(const PlannedBucket& plan) {
  device::BucketShape shape{plan.dtype, plan.bytes, {}};
  const std::size_t element = size_of(plan.dtype);
  for (const auto& tensor : plan.tensors) shape.places.push_back({tensor.offset / element, tensor.bytes / element});
  return shape;
}

}  // namespace

BucketOnDevice::BucketOnDevice(const PlannedBucket& plan, const Place& place, std::size_t own_words)
    : Bucket(plan, own_words), lane_(*place.lane), memory_(lane_, shape_of(plan), place.timeout) {}

void BucketOnDevice::open(const Stamp& stamp) {
  Bucket::open(stamp);
  memory_.open();
}

bool BucketOnDevice::pack(std::size_t slot, const void* data, Stream ready) {
  memory_.contribute(slot, data, ready);
  const bool full = take(slot);
  if (full) memory_.seal();
  return full;
}

void BucketOnDevice::clear_missing() {
  if (missing() > 0) memory_.seal();
}

void BucketOnDevice::hand_to(Stream user) {
  if (!voided()) memory_.hand_to(user);
}

std::span<std::byte> BucketOnDevice::tensor(std::size_t slot, std::size_t bytes) {
  return {memory_.data() + tensors()[slot].offset, bytes};
}

}  // namespace kolo::engine

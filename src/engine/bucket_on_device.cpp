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

void BucketOnDevice::record(telemetry::Recorder& recorder, std::uint32_t track) noexcept {
  recorder_ = &recorder;
  reduction_.name = "reduction";
  reduction_.bytes = plan().bytes;
  reduction_.track = track;
}

void BucketOnDevice::open(const Stamp& stamp) {
  Bucket::open(stamp);
  memory_.open();
  recorded_ = 0;
  reduction_.round = stamp.round;
}

void BucketOnDevice::begin_reduction() noexcept {
  if (recorder_ != nullptr) recorded_ = recorder_->reduction_began(lane_.stream());
}

void BucketOnDevice::end_reduction() {
  if (recorded_ == 0) return;
  if (recorder_->has_timeline()) reduction_.algorithm = algorithm();
  recorder_->reduction_ended(recorded_, reduction_, lane_.stream());
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

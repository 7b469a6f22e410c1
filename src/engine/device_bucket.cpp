#include "engine/device_bucket.h"

namespace kolo::engine {
namespace {

device::BucketShape shape_of(const PlannedBucket& plan) {
  device::BucketShape shape{plan.dtype, plan.bytes, {}};
  const std::size_t element = size_of(plan.dtype);
  for (const auto& tensor : plan.tensors) shape.places.push_back({tensor.offset / element, tensor.bytes / element});
  return shape;
}

}  // namespace

DeviceBucket::DeviceBucket(DeviceBucketParts parts)
    : Bucket(*parts.plan, 1), parts_(std::move(parts)), memory_(*parts_.lane, shape_of(plan()), parts_.timeout) {}

void DeviceBucket::open(std::uint64_t stamp) {
  Bucket::open(stamp);
  memory_.open();
  agreement_.reset();
  state_ = State::open;
}

bool DeviceBucket::pack(std::size_t slot, const void* data, Stream ready) {
  memory_.contribute(slot, data, ready);
  const bool full = take(slot);
  if (full) memory_.seal();
  return full;
}

bool DeviceBucket::place(std::size_t slot, std::byte* data) { return pack(slot, data, parts_.lane->stream()); }

void DeviceBucket::clear_missing() {
  if (missing() > 0) memory_.seal();
}

void DeviceBucket::launch(const Reduction& reduction, bool as_void) {
  const double size = reduction.op == ReduceOp::average ? parts_.communicator->size() : 1;
  scale_ = reduction.prescale * reduction.postscale / size;
  turn() = parts_.lane->take_turn();
  AllreduceOptions agreement;
  agreement.flags = flags(as_void);
  parts_.counters->launches.add();
  agreement_ = parts_.communicator->start(agreement);
  state_ = State::launched;
}

bool DeviceBucket::advance() {
  if (state_ == State::launched && agreement_->advance()) {
    agreement_.reset();
    state_ = State::agreed;
  }
  if (state_ == State::agreed && parts_.lane->is_turn(turn())) {
    parts_.lane->end_turn();
    if (!voided()) memory_.reduce(scale_);
    state_ = State::complete;
  }
  return state_ == State::complete;
}

void DeviceBucket::hand_to(Stream user) {
  if (!voided()) memory_.hand_to(user);
}

std::span<std::byte> DeviceBucket::tensor(std::size_t slot, std::size_t bytes) {
  return {memory_.data() + tensors()[slot].offset, bytes};
}

std::vector<Rank> DeviceBucket::waiting_for() const {
  return agreement_ == nullptr ? std::vector<Rank>{} : agreement_->waiting_for();
}

}  // namespace kolo::engine

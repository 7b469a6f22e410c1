#include "nccl/device_operation.h"

#include "cuda/runtime.h"

namespace kolo::nccl {

// A device that has failed fails for the whole group: peers would wait for this rank.
bool DeviceOperation::passed() {
  try {
    const cuda::DeviceGuard guard(*group_->runtime, group_->device);
    return end_->event().passed();
  } catch (...) {
    group_->handle.fail(std::current_exception());
  }
}

// The error is asked for after the event: an abort lets the device pass operations that were not carried out.
bool DeviceOperation::advance() {
  if (complete_) return true;
  const bool at_end = passed();
  group_->handle.poll(what_);
  if (at_end) {
    complete_ = true;
    return true;
  }
  if (deadline_.passed()) group_->handle.time_out(what_);
  return false;
}

}  // namespace kolo::nccl

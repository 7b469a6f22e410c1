#include "nccl/scratch.h"

#include <exception>
#include <new>
#include <thread>

#include "base/deadline.h"

namespace kolo::nccl {

Scratch::Scratch(const cuda::RuntimePtr& runtime, int device) : stream_(runtime, device, cuda::Priority::high) {
  memory_.emplace(runtime, device, kBytes);
  pinned_.emplace(runtime, device, kBytes);
  cuda::fill_zero(*runtime, memory_->data(), kBytes, stream_.view());
}

bool Scratch::idle() const noexcept {
  try {
    return stream_.idle();
  } catch (const std::exception&) {
    return true;  // a device that has failed uses nothing any more
  }
}

Scratch::~Scratch() {
  const base::Deadline deadline(std::chrono::seconds(2));
  while (!idle()) {
    if (deadline.passed()) {
      // Rather lost than given to somebody else while the device may still write to it.
      (void)new (std::nothrow) cuda::DeviceBuffer(std::move(*memory_));
      (void)new (std::nothrow) cuda::PinnedBuffer(std::move(*pinned_));
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace kolo::nccl

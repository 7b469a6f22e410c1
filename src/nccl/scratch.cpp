#include "nccl/scratch.h"

namespace kolo::nccl {

Scratch::Scratch(const cuda::RuntimePtr& runtime, int device)
    : stream_(runtime, device, cuda::Priority::high),
      memory_(runtime, device, kBytes),
      pinned_(runtime, device, kBytes) {
  cuda::fill_zero(*runtime, memory_.data(), kBytes, stream_.view());
}

Scratch::~Scratch() {
  using Both = std::pair<cuda::DeviceBuffer, cuda::PinnedBuffer>;
  release_after(Both(std::move(memory_), std::move(pinned_)));
}

}  // namespace kolo::nccl

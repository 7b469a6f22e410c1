#pragma once
// A communicator's own few bytes and its own stream, for what comes without memory of the caller's: barriers, and
// questions to all ranks.
#include <utility>

#include "cuda/memory.h"
#include "cuda/stream.h"

namespace kolo::nccl {

class Scratch {
 public:
  static constexpr std::size_t kBytes = 256;
  Scratch(const cuda::RuntimePtr& runtime, int device)
      : stream_(runtime, device, cuda::Priority::high),
        memory_(runtime, device, kBytes),
        pinned_(runtime, device, kBytes) {
    cuda::fill_zero(*runtime, memory_.data(), kBytes, stream_.view());
  }
  // Waits at most two seconds until the device has finished with it; else the memory is never released.
  ~Scratch() { release_after(std::pair(std::move(memory_), std::move(pinned_))); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] Stream stream() const noexcept { return stream_.view(); }
  [[nodiscard]] std::byte* on_device() const noexcept { return memory_.data(); }
  [[nodiscard]] std::byte* on_host() const noexcept { return pinned_.data().data(); }

  // Used in the stream, by operations whose end nobody waits for any longer.
  template <class Memory>
  void release_after(Memory memory) const noexcept {
    cuda::release_after(stream_, std::move(memory));
  }

 private:
  cuda::OwnStream stream_;
  cuda::DeviceBuffer memory_;
  cuda::PinnedBuffer pinned_;
};

}  // namespace kolo::nccl

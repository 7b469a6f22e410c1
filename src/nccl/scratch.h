#pragma once
// A communicator's own few bytes and its own stream, for what comes without memory of the caller's: barriers, and
// questions to all ranks.
#include <utility>

#include "cuda/memory.h"
#include "cuda/release_after.h"
#include "cuda/stream.h"

namespace kolo::nccl {

class Scratch {
 public:
  static constexpr std::size_t kBytes = 256;
  Scratch(const cuda::RuntimePtr& runtime, int device);
  // Waits shortly for the device to be done with it; what it is not done with is not released.
  ~Scratch();
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

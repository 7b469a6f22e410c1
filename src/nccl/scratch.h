#pragma once
// A communicator's own few bytes and its own stream, for what comes without memory of the caller's: barriers, and
// questions to all ranks.
#include <chrono>
#include <optional>

#include "cuda/memory.h"
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
  [[nodiscard]] std::byte* on_device() const noexcept { return memory_->data(); }
  [[nodiscard]] std::byte* on_host() const noexcept { return pinned_->data().data(); }

 private:
  [[nodiscard]] bool idle() const noexcept;

  cuda::OwnStream stream_;
  std::optional<cuda::DeviceBuffer> memory_;
  std::optional<cuda::PinnedBuffer> pinned_;
};

}  // namespace kolo::nccl

#pragma once
// What TorchDevice consists of, for the files that register it with torch.
#include <memory>

#include "support/torch_device/caching_allocator.h"
#include "support/torch_device/torch_device.h"
#include "support/torch_device/torch_streams.h"

namespace kolo::test {

class TorchBackend {
 public:
  explicit TorchBackend(SimulatedDevice& simulated);

  SimulatedDevice& device;
  const cuda::RuntimeApi api;
  const std::uint64_t generation;  // tells this one from earlier ones, in thread-local state and in handles
  TorchStreams streams;
  CachingAllocator allocator;
};

// Null: none.
[[nodiscard]] std::shared_ptr<TorchBackend> find_backend() noexcept;
// Throws c10::Error when there is none.
[[nodiscard]] std::shared_ptr<TorchBackend> backend();

// Throws c10::Error for anything but success.
void check(cuda::Status status, const char* what);

// Tells torch of the backend; torch keeps it for ever. Once in a process.
bool register_with_torch();
void register_operators();  // operators.cpp

}  // namespace kolo::test

#pragma once
// Memory that all ranks of one host have mapped: what the direct algorithm works in.
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace kolo::transport {

// One allocation: `slots()[r]` is local rank r's memory, 4096-byte aligned, zero at first. Slots are equally long.
// Unmapped on destruction; peers' mappings live on.
class SharedRegion {
 public:
  virtual ~SharedRegion() = default;
  [[nodiscard]] virtual std::span<const std::span<std::byte>> slots() const noexcept = 0;
};

// Makes regions. Collective over the ranks of one host, in the same order. Externally synchronized.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  [[nodiscard]] virtual int local_rank() const noexcept = 0;
  [[nodiscard]] virtual int local_size() const noexcept = 0;
  // `bytes` of memory for each rank. Throws TimeoutError naming who did not come, BackendError on all ranks when memory
  // is short on any (found by reserving it, never by SIGBUS), PeerLostError.
  [[nodiscard]] virtual std::unique_ptr<SharedRegion> allocate(std::size_t bytes,
                                                               std::chrono::milliseconds timeout) = 0;
  // Called now and then while allocate() waits for the others; what it throws ends the wait. Empty: none.
  void set_while_waiting(std::function<void()> hook) { while_waiting_ = std::move(hook); }

 protected:
  [[nodiscard]] const std::function<void()>& while_waiting() const noexcept { return while_waiting_; }

 private:
  std::function<void()> while_waiting_;
};

}  // namespace kolo::transport

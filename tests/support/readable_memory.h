#pragma once
// Shared memory of ranks that are threads, which can also read each other's own memory.
#include <atomic>
#include <cstring>
#include <memory>

#include "transport/shared_memory.h"

namespace kolo::test {

class ReadableMemory final : public transport::SharedMemory {
 public:
  explicit ReadableMemory(transport::SharedMemory& memory) : memory_(memory) {}
  [[nodiscard]] int local_rank() const noexcept override { return memory_.local_rank(); }
  [[nodiscard]] int local_size() const noexcept override { return memory_.local_size(); }
  [[nodiscard]] std::unique_ptr<transport::SharedRegion> allocate(std::size_t bytes,
                                                                  std::chrono::milliseconds timeout) override {
    return memory_.allocate(bytes, timeout);
  }
  [[nodiscard]] bool can_pull() const noexcept override { return true; }
  [[nodiscard]] bool pull(int /*rank*/, const std::byte* from, std::span<std::byte> to) override {
    if (gone_.load()) return false;
    std::memcpy(to.data(), from, to.size());
    return true;
  }
  // As if all peers had ended, or not.
  void set_gone(bool gone) { gone_.store(gone); }

 private:
  transport::SharedMemory& memory_;
  std::atomic<bool> gone_{false};
};

}  // namespace kolo::test

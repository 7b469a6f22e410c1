#pragma once
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace kolo::kernels::test {

// Memory at a chosen place after a 64-byte line, with bytes on both sides that must not change. Of the default memory
// resource, as all that these tests hand to kernels: see host_table.h.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t misalignment)
      : memory_(bytes + misalignment + 4 * kGuard, kMark), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    start_ = kGuard + (64 - address % 64) % 64 + misalignment;
  }
  std::byte* data() { return memory_.data() + start_; }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < start_ || i >= start_ + bytes_) && memory_[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kMark{0xa5};
  std::pmr::vector<std::byte> memory_;
  std::size_t bytes_;
  std::size_t start_ = 0;
};

}  // namespace kolo::kernels::test

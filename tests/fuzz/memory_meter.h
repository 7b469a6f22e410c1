#pragma once
// How much memory C++ allocations of this thread held at once, at most, since the meter was made. memory_meter.cpp
// replaces the operators new and delete of the program that it is linked to.
#include <cstddef>

namespace kolo::fuzz {

class MemoryMeter {
 public:
  MemoryMeter() noexcept;
  [[nodiscard]] std::size_t peak() const noexcept;

 private:
  std::size_t before_;
};

}  // namespace kolo::fuzz

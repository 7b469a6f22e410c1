#pragma once
#include <cstddef>

namespace kolo::base {

// What cores pass on to each other, bytes.
inline constexpr std::size_t kCacheLine = 64;

// `bytes` and as many more as fill their last line.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Has a line brought to this core to be written to, while the caller goes on: a later store need not wait for other
// cores to give it up. (Written out, because compilers emit it only where the target flags name it; every 64-bit x86
// processor takes it. Elsewhere nothing is done.)
inline void own_line([[maybe_unused]] const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#endif
}

}  // namespace kolo::base

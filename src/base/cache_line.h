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
// cores to give it up. Written out for x86, because compilers emit it only where the target flags name it; every 64-bit
// processor takes it. Always inlined, so that a file compiled for one processor lends its copy to no other.
[[gnu::always_inline]] inline void own_line(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace kolo::base

#pragma once
#include <cstddef>

namespace kolo::base {

// What cores pass on to each other, bytes.
inline constexpr std::size_t kCacheLine = 64;

// `bytes` and as many more as fill their last line.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace kolo::base

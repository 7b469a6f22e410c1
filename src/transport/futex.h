#pragma once
#include <chrono>
#include <cstdint>

namespace kolo::transport {

// Sleeps while `word` is `expected`, at most so long; may return early. `word` may lie in memory that several processes
// have mapped.
void futex_wait(std::uint32_t& word, std::uint32_t expected, std::chrono::nanoseconds at_most) noexcept;
// Wakes all who sleep on `word`.
void futex_wake(std::uint32_t& word) noexcept;

}  // namespace kolo::transport

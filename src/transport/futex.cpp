#include "transport/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace kolo::transport {

// Not the PRIVATE forms: those are keyed by address, and every process has the word at another one.
void futex_wait(std::uint32_t& word, std::uint32_t expected, std::chrono::nanoseconds at_most) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec limit{};
  limit.tv_sec = static_cast<std::time_t>(seconds.count());
  limit.tv_nsec = static_cast<long>((at_most - seconds).count());
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake(std::uint32_t& word) noexcept { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace kolo::transport

#pragma once
// Waiting for many descriptors at once.
#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace kolo::transport {

class Epoll {
 public:
  Epoll();  // throws BackendError
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }
  // `events`: EPOLLIN, ... ; `mark` comes back with them. Throws BackendError.
  void add(int descriptor, std::uint32_t events, std::uint64_t mark);
  // Also done by closing the last copy of the descriptor.
  void remove(int descriptor) noexcept;
  // What has happened by now, or happens within `at_most`. Valid until the next call. Throws BackendError.
  [[nodiscard]] std::span<const epoll_event> wait(std::chrono::nanoseconds at_most);

 private:
  base::UniqueFd epoll_;
  std::array<epoll_event, 64> events_{};
};

}  // namespace kolo::transport

#pragma once
// TCP between `kolo run` and its supervisors. A host that is gone is noticed by the kernel, within kUnreachable, also
// while nothing is said; a program that is merely stopped is not taken for one.
#include <chrono>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace kolo::tools {

inline constexpr std::chrono::seconds kUnreachable{10};

// The IPv4 address of this host that others reach it by: on `interface` (a network as 10.0.0.0/24, or a device's name),
// or else on the way to `host`. "127.0.0.1" when both are empty. Throws std::runtime_error.
[[nodiscard]] std::string own_address(const std::string& interface, const std::string& host);

struct Listener {
  base::UniqueFd socket;  // does not block
  std::string address;    // "10.0.0.1:4711"
};
// On that address only. Throws std::runtime_error.
[[nodiscard]] Listener listen_on(const std::string& address);

// Invalid when nobody is there (any more), and when no more files may be open: errno is EMFILE or ENFILE then, and
// whoever calls goes on calling.
[[nodiscard]] base::UniqueFd accept_from(const Listener& listener);
// Throws std::runtime_error when it does not succeed within `patience`. The socket does not block.
[[nodiscard]] base::UniqueFd connect_to(const std::string& address, std::chrono::milliseconds patience);

}  // namespace kolo::tools

#pragma once
// TCP sockets that never block.
#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "cluster/socket_address.h"

namespace kolo::cluster {

// A listening socket at a port of the system's choice.
struct Listener {
  base::UniqueFd socket;
  std::uint16_t port = 0;
};
// Throws BackendError.
[[nodiscard]] Listener listen_at(const std::string& address);

// A socket on which nothing waits to be sent with what comes next; empty, and errno says why, when there is none.
[[nodiscard]] base::UniqueFd make_tcp_socket(int family) noexcept;
// The next who calls `listener`, as make_tcp_socket(); empty with EAGAIN: nobody.
[[nodiscard]] base::UniqueFd accept_at(int listener) noexcept;
// Why a socket's connection failed, as errno; 0: it did not.
[[nodiscard]] int error_of(int socket) noexcept;

}  // namespace kolo::cluster

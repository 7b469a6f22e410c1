#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kolo::cluster {

// An address and a port as the kernel wants them.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] int family() const noexcept { return storage.ss_family; }
};

// Nothing for text that is no IPv4 or IPv6 address.
[[nodiscard]] std::optional<SocketAddress> socket_address(const std::string& address, std::uint16_t port);
// "10.0.0.1"; empty for other families.
[[nodiscard]] std::string address_text(const sockaddr& address);

}  // namespace kolo::cluster

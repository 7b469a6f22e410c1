#include "run_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "run_wire.h"

namespace kolo::tools {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

void set(int socket, int level, int option, int value) {
  if (::setsockopt(socket, level, option, &value, sizeof value) != 0) fail("setsockopt");
}

void watch_for_death(int socket) {
  const int seconds = static_cast<int>(kUnreachable.count());
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, (seconds - 2) / 2);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);  // the same for what was sent and is not acknowledged
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

std::string text_of(const in_addr& address) {
  char text[INET_ADDRSTRLEN] = {};
  return ::inet_ntop(AF_INET, &address, text, sizeof text) == nullptr ? std::string() : std::string(text);
}

sockaddr_in parse_address(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const std::size_t colon = text.find(':');
  std::uint16_t port = 0;
  if (colon != std::string::npos) std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    throw std::runtime_error("'" + text + "' is not an IPv4 address");
  }
  return address;
}

// Whether an interface of that name and address is meant by `wanted`.
bool is_wanted(const std::string& wanted, const std::string& name, in_addr own) {
  const std::size_t slash = wanted.find('/');
  if (slash == std::string::npos) return wanted == name;
  in_addr network{};
  unsigned bits = 33;
  std::from_chars(wanted.data() + slash + 1, wanted.data() + wanted.size(), bits);
  if (bits > 32 || ::inet_pton(AF_INET, wanted.substr(0, slash).c_str(), &network) != 1) {
    throw std::runtime_error("--interface: '" + wanted + "' is neither a network (10.0.0.0/24) nor an interface");
  }
  const std::uint32_t mask = bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits);
  return (ntohl(own.s_addr) & mask) == (ntohl(network.s_addr) & mask);
}

std::string address_on(const std::string& interface) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) fail("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* item = first; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || item->ifa_addr->sa_family != AF_INET || (item->ifa_flags & IFF_UP) == 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, item->ifa_addr, sizeof address);
    if (is_wanted(interface, item->ifa_name, address.sin_addr)) return text_of(address.sin_addr);
  }
  throw std::runtime_error("--interface: this host has no IPv4 address on " + interface);
}

// Nothing is sent: the kernel says which address it would send from.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "9", &hints, &found); error != 0) {
    throw std::runtime_error("cannot resolve host " + host + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  const base::UniqueFd probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t length = sizeof own;
  if (::connect(probe.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    fail("no route to host " + host);
  }
  return text_of(own.sin_addr);
}

}  // namespace

std::string own_address(const std::string& interface, const std::string& host) {
  if (!interface.empty()) return address_on(interface);
  return host.empty() ? "127.0.0.1" : address_towards(host);
}

Listener listen_on(const std::string& address) {
  Listener listener;
  listener.socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in own = parse_address(address);
  socklen_t length = sizeof own;
  auto* const generic = reinterpret_cast<sockaddr*>(&own);
  if (listener.socket) set(listener.socket.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBuffer);  // of what is accepted, too
  if (!listener.socket || ::bind(listener.socket.get(), generic, length) != 0 ||
      ::listen(listener.socket.get(), SOMAXCONN) != 0 || ::getsockname(listener.socket.get(), generic, &length) != 0) {
    fail("cannot listen on " + address);
  }
  listener.address = address + ":" + std::to_string(ntohs(own.sin_port));
  return listener;
}

base::UniqueFd accept_from(const Listener& listener) {
  base::UniqueFd peer(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer) watch_for_death(peer.get());
  return peer;
}

base::UniqueFd connect_to(const std::string& address, std::chrono::milliseconds patience) {
  const sockaddr_in peer = parse_address(address);
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0 && errno != EINPROGRESS) {
    fail("cannot connect to kolo run at " + address);
  }
  pollfd wait{socket.get(), POLLOUT, 0};
  int error = 0;
  socklen_t length = sizeof error;
  const int ready = ::poll(&wait, 1, static_cast<int>(patience.count()));
  if (ready == 0) error = ETIMEDOUT;
  if (ready > 0) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (ready < 0) error = errno;
  if (error != 0) {
    errno = error;
    fail("cannot connect to kolo run at " + address);
  }
  watch_for_death(socket.get());
  return socket;
}

}  // namespace kolo::tools

#include "cluster/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/system_error.h"
#include "kolo/error.h"

namespace kolo::cluster {
namespace {

constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

void send_at_once(int socket) noexcept {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Listener listen_at(const std::string& address) {
  const auto where = socket_address(address, 0);
  if (!where) throw BackendError("cannot listen: '" + address + "' is not an IP address");
  Listener listener{make_tcp_socket(where->family()), 0};
  if (!listener.socket) base::throw_errno("socket for " + address);
  if (bind(listener.socket.get(), where->get(), where->length) != 0) base::throw_errno("bind to " + address);
  if (listen(listener.socket.get(), SOMAXCONN) != 0) base::throw_errno("listen at " + address);
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) {
    base::throw_errno("getsockname");
  }
  // The port is at the same place in both families' addresses.
  listener.port = ntohs(reinterpret_cast<const sockaddr_in&>(bound.storage).sin_port);
  return listener;
}

base::UniqueFd make_tcp_socket(int family) noexcept {
  base::UniqueFd made(socket(family, SOCK_STREAM | kFlags, 0));
  if (made) send_at_once(made.get());
  return made;
}

base::UniqueFd accept_at(int listener) noexcept {
  base::UniqueFd made(accept4(listener, nullptr, nullptr, kFlags));
  if (made) send_at_once(made.get());
  return made;
}

int error_of(int socket) noexcept {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace kolo::cluster

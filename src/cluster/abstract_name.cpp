#include "cluster/abstract_name.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>

namespace kolo::cluster {
namespace {

// A datagram socket: connecting to it needs no accept(), and fails if no socket has the name.
base::UniqueFd open_socket() { return base::UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// Calls bind() or connect() with the address of `name`.
bool call_with(const std::string& name, const base::UniqueFd& fd, int (*call)(int, const sockaddr*, socklen_t)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.data(), length, address.sun_path + 1);  // the leading zero makes the name abstract
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return fd && call(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0;
}

}  // namespace

base::UniqueFd hold_name(const std::string& name) {
  base::UniqueFd fd = open_socket();
  if (!call_with(name, fd, ::bind)) fd.reset();
  return fd;
}

bool is_name_held(const std::string& name) { return call_with(name, open_socket(), ::connect); }

}  // namespace kolo::cluster

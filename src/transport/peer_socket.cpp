#include "transport/peer_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/system_error.h"
#include "cluster/mpi_exit.h"
#include "kolo/error.h"

namespace kolo::transport {
namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
// Without pid descriptors a death is looked for this often.
constexpr int kSliceMs = 20;
constexpr int kEndingMs = 100;

// Its end of a connection is closed. A process that dies closes its connections a little before it counts as dead, and
// then it has died, not left.
PeerLostError lost(const PeerProcess& peer, const std::string& how) {
  cluster::skip_mpi_finalize();
  if (peer.dies_within(kEndingMs)) peer.require_alive();
  return {peer.rank(), "rank " + std::to_string(peer.rank()) + " " + how};
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) base::throw_errno("getrandom");
  std::string name = "kolo-";
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

// A leading zero byte makes a name abstract.
socklen_t make_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

base::UniqueFd make_socket() {
  base::UniqueFd made(socket(AF_UNIX, kSocketType, 0));
  if (!made) base::throw_errno("socket");
  return made;
}

}  // namespace

PeerListener::PeerListener(int backlog) : name_(random_name()), socket_(make_socket()) {
  sockaddr_un address{};
  const socklen_t length = make_address(name_, address);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    base::throw_errno("bind of a local socket");
  if (listen(socket_.get(), backlog) != 0) base::throw_errno("listen on a local socket");
}

base::UniqueFd PeerListener::accept() const {
  base::UniqueFd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return {};
    base::throw_errno("accept on a local socket");
  }
  ucred who{};
  socklen_t length = sizeof(who);
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid()) return {};
  return connection;
}

base::UniqueFd connect_to_peer(const std::string& name, const PeerProcess& peer, const base::Deadline& deadline) {
  sockaddr_un address{};
  const socklen_t length = make_address(name, address);
  base::UniqueFd made = make_socket();
  while (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == ECONNREFUSED) throw lost(peer, "ended before its connection was made");
    // A full backlog: there is nothing to wait on in the kernel.
    if (errno != EAGAIN && errno != EINTR) base::throw_errno("connect to a local socket");
    peer.require_alive();
    if (deadline.passed())
      throw TimeoutError({peer.rank()}, "timeout: connecting to rank " + std::to_string(peer.rank()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return made;
}

void send_to_peer(int socket, const PeerMessage& message, int descriptor, const PeerProcess& peer) {
  iovec data{const_cast<PeerMessage*>(&message), sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  // Never blocks: a handful of messages per collective call, and nobody is two calls ahead.
  while (sendmsg(socket, &header, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) throw lost(peer, "has shut down its Context");
    base::throw_errno("sendmsg to rank " + std::to_string(peer.rank()));
  }
}

bool wait_for_peer(int socket, const PeerProcess& peer, const base::Deadline& deadline) {
  while (true) {
    std::array<pollfd, 2> entries{{{socket, POLLIN, 0}, {peer.descriptor(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    const int slice = peer.descriptor() >= 0 ? 60'000 : kSliceMs;
    const int count = poll(entries.data(), entries.size(), static_cast<int>(std::min<long long>(left, slice)));
    if (count < 0 && errno != EINTR) base::throw_errno("poll");
    if (entries[0].revents != 0) return true;  // first what it said, then that it died
    peer.require_alive();
    if (deadline.passed()) return false;
  }
}

ReceivedMessage receive_from_peer(int socket, const PeerProcess& peer) {
  ReceivedMessage received;
  iovec data{&received.message, sizeof(received.message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t count = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (count < 0 && errno != ECONNRESET) base::throw_errno("recvmsg from rank " + std::to_string(peer.rank()));
  if (count <= 0) throw lost(peer, "has shut down its Context");
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(part), sizeof(int));
    received.descriptor.reset(descriptor);
  }
  if (count != sizeof(PeerMessage)) {
    throw BackendError("truncated message from rank " + std::to_string(peer.rank()) + " (" + std::to_string(count) +
                       " of " + std::to_string(sizeof(PeerMessage)) + " bytes)");
  }
  return received;
}

}  // namespace kolo::transport

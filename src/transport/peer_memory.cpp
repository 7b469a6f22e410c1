#include "transport/peer_memory.h"

#include <sys/uio.h>

#include <cerrno>
#include <string>

#include "base/system_error.h"

namespace kolo::transport {

bool read_memory_of(pid_t process, const std::byte* from, std::span<std::byte> to) {
  while (!to.empty()) {
    const iovec here{to.data(), to.size()};
    const iovec there{const_cast<std::byte*>(from), to.size()};
    const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (got < 0 && errno == ESRCH)) return false;
    if (got < 0) base::throw_errno("reading memory of process " + std::to_string(process));
    from += got;
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace kolo::transport

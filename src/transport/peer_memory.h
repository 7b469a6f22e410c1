#pragma once
// The memory of another process of this host, copied by the kernel in one go (process_vm_readv): no shared memory in
// between. Needs the same user and the right to trace: where Yama or a container's seccomp rules forbid that, it fails.
#include <sys/types.h>

#include <cstddef>
#include <span>

namespace kolo::transport {

// Copies what `process` has at `from` into `to`. False when it has ended. Throws BackendError when the kernel refuses,
// or there is nothing that it can read, as where a device's memory is mapped; then some of `to` may be written.
[[nodiscard]] bool read_memory_of(pid_t process, const std::byte* from, std::span<std::byte> to);

}  // namespace kolo::transport

#pragma once
// How much memory there is left to reserve.
#include <cstddef>
#include <filesystem>

namespace kolo::transport {

// Bytes that this process may take without waking an out-of-memory killer: what the kernel reckons to be available, and
// no more than any control group around the process (version 2; a container's or a batch system's limit) leaves. Pages
// that only cache files count as free, as they go first. A file that cannot be read limits nothing. The folders are the
// system's but for tests.
[[nodiscard]] std::size_t available_memory(const std::filesystem::path& proc = "/proc",
                                           const std::filesystem::path& control_groups = "/sys/fs/cgroup");

}  // namespace kolo::transport

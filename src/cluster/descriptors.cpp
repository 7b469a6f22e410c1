#include "cluster/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

namespace kolo::cluster {
namespace {

constexpr std::ptrdiff_t kFew = 4;

}  // namespace

void make_room_for_descriptors(std::size_t needed) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

std::string descriptor_trouble() {
  rlimit limit{};
  std::error_code none;  // with every descriptor taken the folder cannot be read either
  const std::filesystem::directory_iterator files("/proc/self/fd", none);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const bool cannot_open = none == std::errc::too_many_files_open;
  if (limit.rlim_cur == RLIM_INFINITY || (none && !cannot_open)) return {};
  const auto most = static_cast<std::ptrdiff_t>(limit.rlim_cur);
  if (!none && std::distance(begin(files), end(files)) + kFew < most) return {};
  return "this process has reached its limit of " + std::to_string(most) + " open files: raise `ulimit -n`";
}

}  // namespace kolo::cluster

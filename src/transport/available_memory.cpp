#include "transport/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::transport {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// The number behind `name` in a file of lines "name number ...".
std::optional<std::size_t> number_of(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  std::size_t number = 0;
  for (std::string rest; file >> word >> number; std::getline(file, rest)) {
    if (word == name) return number;
  }
  return std::nullopt;
}

// Of a file with nothing but a number; "max", which is none, for no limit.
std::optional<std::size_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

std::size_t left_in(const std::filesystem::path& group) {
  const auto most = number_in(group / "memory.max");
  const auto used = number_in(group / "memory.current");
  if (!most || !used) return kNoLimit;
  const auto statistics = group / "memory.stat";
  const std::size_t cached =
      number_of(statistics, "inactive_file").value_or(0) + number_of(statistics, "active_file").value_or(0);
  const std::size_t held = *used - std::min(*used, cached);
  return *most - std::min(*most, held);
}

// Of version 2, whose line has no name of a controller: "0::/system.slice/job". Relative.
std::filesystem::path own_group(const std::filesystem::path& proc) {
  std::ifstream file(proc / "self/cgroup");
  constexpr std::string_view kStart = "0::/";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kStart)) return line.substr(kStart.size());
  }
  return {};
}

}  // namespace

std::size_t available_memory(const std::filesystem::path& proc, const std::filesystem::path& control_groups) {
  const auto kib = number_of(proc / "meminfo", "MemAvailable:");
  std::size_t least = kib ? *kib * 1024 : kNoLimit;
  for (auto group = own_group(proc); !group.empty(); group = group.parent_path()) {
    least = std::min(least, left_in(control_groups / group));
  }
  return std::min(least, left_in(control_groups));
}

}  // namespace kolo::transport

#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <thread>

#include "base/environment.h"

namespace kolo::base {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCpus = 1 << 20;  // in a text

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Calls `use` with each item of a list.
template <class Use>
void for_each_item(std::string_view text, const Use& use) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    use(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::optional<int> in_cores(double quota, double period) {
  if (!(quota > 0) || !(period > 0) || quota / period > kMostCpus) return std::nullopt;
  return static_cast<int>(std::ceil(quota / period));
}

// "150000 100000"; "max 100000": no limit.
std::optional<int> quota_of_version_2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period)) return std::nullopt;
  return in_cores(quota, period);
}

// -1: no limit.
std::optional<int> quota_of_version_1(const fs::path& folder) {
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  return in_cores(quota, period);
}

void lower_to(std::optional<int>& least, std::optional<int> quota) {
  if (quota && (!least || *quota < *least)) least = quota;
}

// The limits of a cgroup and of all around it, up to the mount point. In a container the path may begin outside of what
// is mounted: folders that are not there limit nothing.
std::optional<int> least_quota(const fs::path& mount, const fs::path& cgroup,
                               std::optional<int> (*quota_of)(const fs::path&)) {
  std::optional<int> least = quota_of(mount);
  fs::path folder = mount;
  for (const fs::path& name : cgroup.relative_path()) {
    if (name == ".." || name.empty()) continue;
    folder /= name;
    lower_to(least, quota_of(folder));
  }
  return least;
}

bool lists_cpu(std::string_view controllers) {
  bool found = false;
  for_each_item(controllers, [&found](std::string_view name) { found = found || name == "cpu"; });
  return found;
}

}  // namespace

// Lines "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1).
std::optional<int> cgroup_quota(const CgroupPaths& paths) {
  std::optional<int> least;
  std::ifstream file(paths.process);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path cgroup = line.substr(second + 1);
    if (controllers.empty()) {
      lower_to(least, least_quota(paths.mount, cgroup, quota_of_version_2));
      lower_to(least, least_quota(paths.mount / "unified", cgroup, quota_of_version_2));
    } else if (lists_cpu(controllers)) {
      lower_to(least, least_quota(paths.mount / controllers, cgroup, quota_of_version_1));
      lower_to(least, least_quota(paths.mount / "cpu", cgroup, quota_of_version_1));
    }
  }
  return least;
}

CpuLimits cpu_limits() {
  CpuLimits limits;
  std::array<cpu_set_t, 16> sets{};  // of 1,024 each
  if (sched_getaffinity(0, sizeof sets, sets.data()) == 0) {
    for (int cpu = 0; cpu < static_cast<int>(CPU_SETSIZE * sets.size()); ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), sizeof sets, sets.data())) limits.cpus.push_back(cpu);
    }
  }
  const int all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int cpu = 0; limits.cpus.empty() && cpu < all; ++cpu) limits.cpus.push_back(cpu);
  limits.quota = cgroup_quota();
  return limits;
}

int shared_cores(std::span<const CpuLimits> ranks) {
  std::set<int> cpus;
  std::optional<int> quota = 0;
  for (const CpuLimits& rank : ranks) {
    cpus.insert(rank.cpus.begin(), rank.cpus.end());
    quota = quota && rank.quota ? std::max(quota, rank.quota) : std::nullopt;
  }
  const int cores = std::max(1, static_cast<int>(cpus.size()));
  return quota ? std::clamp(*quota, 1, cores) : cores;
}

int threads_of_rank(int cores, int ranks, const CpuLimits& mine, const std::optional<std::string>& omp_num_threads) {
  const auto wanted = omp_num_threads ? parse_omp_num_threads(*omp_num_threads) : std::nullopt;
  if (wanted) return *wanted;
  const int share = cores / std::max(1, ranks);
  return std::max(1, std::min(share, static_cast<int>(mine.cpus.size())));
}

int threads_of_process() {
  const CpuLimits limits = cpu_limits();
  return threads_of_rank(shared_cores({&limits, 1}), 1, limits, get_environment("OMP_NUM_THREADS"));
}

std::optional<int> parse_omp_num_threads(std::string_view text) {
  std::optional<int> first;
  bool valid = true;
  for_each_item(text, [&](std::string_view item) {
    const auto number = parse_number(trimmed(item));
    valid = valid && number && *number > 0;
    if (!first) first = number;
  });
  return valid ? first : std::nullopt;
}

std::string cpus_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> parse_cpus(std::string_view text) {
  std::set<int> cpus;
  for_each_item(text, [&cpus](std::string_view item) {
    const std::size_t dash = std::min(item.find('-'), item.size());
    const auto first = parse_number(trimmed(item.substr(0, dash)));
    const auto last = dash < item.size() ? parse_number(trimmed(item.substr(dash + 1))) : first;
    if (!first || !last || *first < 0 || *last >= kMostCpus) return;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  });
  return {cpus.begin(), cpus.end()};
}

}  // namespace kolo::base

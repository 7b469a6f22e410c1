#include "run_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>

#include "base/cores.h"

namespace kolo::tools {

UsableCores usable_cores() {
  const base::CpuLimits limits = base::cpu_limits();
  UsableCores usable;
  std::map<std::string, std::vector<int>> found;  // by the CPUs of the whole core
  for (const int cpu : limits.cpus) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string siblings;
    found[file >> siblings ? siblings : "cpu" + std::to_string(cpu)].push_back(cpu);
  }
  for (auto& [siblings, cpus] : found) usable.cores.push_back(std::move(cpus));
  std::ranges::sort(usable.cores);
  usable.all = static_cast<long>(limits.cpus.size()) >= ::sysconf(_SC_NPROCESSORS_ONLN);
  const int count = static_cast<int>(usable.cores.size());
  usable.within_quota = std::min(count, base::shared_cores({&limits, 1}));
  return usable;
}

std::vector<int> cpus_of_rank(const std::vector<std::vector<int>>& cores, int cores_per_rank, int local_rank) {
  std::vector<int> cpus;
  for (int i = 0; i < cores_per_rank && !cores.empty(); ++i) {
    const auto core = static_cast<std::size_t>(local_rank * cores_per_rank + i) % cores.size();
    cpus.insert(cpus.end(), cores[core].begin(), cores[core].end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

void bind_to(const std::vector<int>& cpus) {
  std::array<cpu_set_t, 16> sets{};  // of 1,024 each
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), sizeof sets, sets.data());
  if (!cpus.empty()) ::sched_setaffinity(0, sizeof sets, sets.data());
}

}  // namespace kolo::tools

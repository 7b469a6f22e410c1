#pragma once
// The physical cores that a process may use, and how a rank is bound to some of them.
#include <vector>

namespace kolo::tools {

struct UsableCores {
  std::vector<std::vector<int>> cores;  // of each its CPUs, ascending, as far as this process may use them
  bool all = true;                      // this process may use every CPU of the machine
  int within_quota = 1;                 // how many of them the CPU quota of the cgroup allows
};
[[nodiscard]] UsableCores usable_cores();

// The CPUs of rank number `local_rank` of its host, if each rank has `cores_per_rank` of `cores`. Where these are too
// few, ranks share them.
[[nodiscard]] std::vector<int> cpus_of_rank(const std::vector<std::vector<int>>& cores, int cores_per_rank,
                                            int local_rank);
// For this process and what it starts from now on.
void bind_to(const std::vector<int>& cpus);

}  // namespace kolo::tools

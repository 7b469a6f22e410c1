#pragma once
// How many cores the ranks of a host may use together, and how many threads each of them. A core is what the kernel
// calls a CPU: a bit of an affinity mask.
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::base {

// What the kernel allows one process.
struct CpuLimits {
  std::vector<int> cpus;     // numbers in its affinity mask, ascending
  std::optional<int> quota;  // of CPU time of its cgroup, in cores, rounded up; none: no limit
};

struct CgroupPaths {
  std::filesystem::path process = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

// The smallest quota of this process's cgroup and of those around it, of versions 1 and 2. None if no file has one.
[[nodiscard]] std::optional<int> cgroup_quota(const CgroupPaths& paths = {});
// Of this process. Its mask is the calling thread's.
[[nodiscard]] CpuLimits cpu_limits();

// The cores that the ranks of one host may use together: the union of their masks, but no more than the largest of
// their quotas if all have one. At least 1.
[[nodiscard]] int shared_cores(std::span<const CpuLimits> ranks);
// The threads of one of `ranks` ranks that share `cores`: the first number of OMP_NUM_THREADS, else an equal share, but
// no more than its own mask has. At least 1.
[[nodiscard]] int threads_of_rank(int cores, int ranks, const CpuLimits& mine,
                                  const std::optional<std::string>& omp_num_threads);
// The threads of this process if it is alone on its host.
[[nodiscard]] int threads_of_process();

// The first number of a value such as "4" or "4, 2". None if that is no list of positive numbers: OpenMP ignores it
// too.
[[nodiscard]] std::optional<int> parse_omp_num_threads(std::string_view text);

// "0-3,8", and back; what is malformed is left out.
[[nodiscard]] std::string cpus_text(const std::vector<int>& cpus);
[[nodiscard]] std::vector<int> parse_cpus(std::string_view text);

}  // namespace kolo::base

#include "cluster/placement.h"

#include <algorithm>

#include "base/environment.h"
#include "base/fields.h"
#include "base/host_name.h"

namespace kolo::cluster {

Place place(Rank rank, std::span<const std::string> host_keys) {
  Place result;
  result.placement.rank = rank;
  result.placement.size = static_cast<int>(host_keys.size());
  const std::string& mine = host_keys[static_cast<std::size_t>(rank)];
  std::vector<std::string> hosts;  // in order of their lowest ranks
  for (Rank r = 0; r < result.placement.size; ++r) {
    const std::string& key = host_keys[static_cast<std::size_t>(r)];
    if (std::find(hosts.begin(), hosts.end(), key) == hosts.end()) hosts.push_back(key);
    if (key == mine) {
      if (r == rank) result.placement.local_rank = static_cast<int>(result.local_ranks.size());
      result.local_ranks.push_back(r);
    }
  }
  result.placement.device = result.placement.local_rank;
  result.placement.local_size = static_cast<int>(result.local_ranks.size());
  result.placement.cross_rank = static_cast<int>(std::find(hosts.begin(), hosts.end(), mine) - hosts.begin());
  result.placement.cross_size = static_cast<int>(hosts.size());
  return result;
}

std::string process_text() {
  const base::CpuLimits limits = base::cpu_limits();
  return base::join_fields(
      {base::host_key(), base::cpus_text(limits.cpus), limits.quota ? std::to_string(*limits.quota) : ""});
}

Place place_process(Rank rank, std::span<const std::string> texts) {
  std::vector<std::string> keys;
  std::vector<base::CpuLimits> limits;
  for (const std::string& text : texts) {
    auto fields = base::split_fields(text);
    fields.resize(3);
    keys.push_back(fields[0]);
    const auto quota = base::parse_cpus(fields[2]);
    limits.push_back({base::parse_cpus(fields[1]), quota.empty() ? std::nullopt : std::optional(quota.front())});
  }
  Place result = place(rank, keys);
  std::vector<base::CpuLimits> host;
  for (const Rank local : result.local_ranks) host.push_back(limits[static_cast<std::size_t>(local)]);
  set_cores(result.placement, host, limits[static_cast<std::size_t>(rank)]);
  return result;
}

void set_cores(Placement& placement, std::span<const base::CpuLimits> host, const base::CpuLimits& mine) {
  placement.local_cores = base::shared_cores(host);
  placement.threads = base::threads_of_rank(placement.local_cores, placement.local_size, mine,
                                            base::get_environment("OMP_NUM_THREADS"));
}

}  // namespace kolo::cluster

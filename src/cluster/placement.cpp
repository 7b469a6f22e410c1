#include "cluster/placement.h"

#include <algorithm>

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

}  // namespace kolo::cluster

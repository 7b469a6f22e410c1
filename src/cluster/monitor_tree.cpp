#include "cluster/monitor_tree.h"

#include <map>

namespace kolo::cluster {

MonitorTree::MonitorTree(const std::vector<int>& hosts) {
  std::vector<Rank> lowest;                  // of each host, in order
  std::map<int, std::vector<Rank>> of_host;  // ranks so far
  for (Rank rank = 0; static_cast<std::size_t>(rank) < hosts.size(); ++rank) {
    const int host = hosts[static_cast<std::size_t>(rank)];
    auto& local = of_host[host];
    if (!local.empty()) {
      parents_.push_back(local[(local.size() - 1) / 2]);
    } else if (lowest.empty()) {
      parents_.push_back(-1);
    } else {
      parents_.push_back(lowest[(lowest.size() - 1) / 2]);
    }
    if (local.empty()) lowest.push_back(rank);
    local.push_back(rank);
  }
}

std::vector<Rank> MonitorTree::neighbours(Rank rank) const {
  std::vector<Rank> result;
  for (Rank other = 0; static_cast<std::size_t>(other) < parents_.size(); ++other) {
    if (other == parent(rank) || parent(other) == rank) result.push_back(other);
  }
  return result;
}

Rank MonitorTree::next_hop(Rank from, Rank to) const {
  for (Rank below = to; below >= 0; below = parent(below)) {
    if (parent(below) == from) return below;
  }
  return parent(from);
}

}  // namespace kolo::cluster

#pragma once
// The tree along which news goes: a heap of hosts, and on each host a heap of its ranks below the lowest. One
// connection leaves a host for each host below it.
//
//    host a: 0 1 2      host b: 3 4      host c: 5
//
//           0 ----+------+           0 is above 1 and 2, its host's ranks,
//          / \    |      |           and above 3 and 5, the lowest of the hosts below
//         1   2   3      5
//                 |
//                 4
#include <vector>

#include "kolo/types.h"

namespace kolo::cluster {

class MonitorTree {
 public:
  // `hosts`: by rank, a number for each host.
  explicit MonitorTree(const std::vector<int>& hosts);
  [[nodiscard]] bool is_root(Rank rank) const { return parent(rank) < 0; }
  // -1 for the root, which is rank 0.
  [[nodiscard]] Rank parent(Rank rank) const { return parents_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::vector<Rank> neighbours(Rank rank) const;
  // The neighbour of `from` on the way to `to`. REQUIRES: they differ.
  [[nodiscard]] Rank next_hop(Rank from, Rank to) const;

 private:
  std::vector<Rank> parents_;
};

}  // namespace kolo::cluster

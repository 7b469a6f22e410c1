#include "comm/host_blocks.h"

#include <numeric>

namespace kolo::comm {

HostBlocks::HostBlocks(const Hierarchy& hierarchy, std::span<const std::size_t> counts, std::size_t grain)
    : hierarchy_(hierarchy), counts_(counts), grain_(grain), of_lanes_(hierarchy.neighbours().size(), 0) {
  for (std::size_t h = 0; h < hierarchy.hosts(); ++h) {
    std::size_t block = 0;
    for (const Rank rank : hierarchy.ranks_of(h)) block += count(rank);
    blocks_.push_back(block);
    of_hosts_.push_back(part(h, hierarchy.local()).size());
    for (std::size_t lane = 0; lane < hierarchy.lanes(); ++lane) of_lanes_[lane] += part(h, lane).size();
  }
}

std::size_t HostBlocks::before(Rank rank) const {
  return std::accumulate(counts_.begin(), counts_.begin() + rank, std::size_t{0});
}

}  // namespace kolo::comm

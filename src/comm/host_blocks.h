#pragma once
// Uneven data of all ranks, sorted by hosts and shared among the lanes.
#include <numeric>
#include <span>
#include <vector>

#include "comm/hierarchy.h"

namespace kolo::comm {

// What the ranks of one host have, one after another, is that host's block; lane j moves part j of every block. All
// sizes are in the unit of `counts`, which has one entry a rank and outlives this.
class HostBlocks {
 public:
  using Counts = std::vector<std::size_t>;
  // Parts begin on multiples of `grain` within their blocks.
  HostBlocks(const Hierarchy& hierarchy, std::span<const std::size_t> counts, std::size_t grain)
      : hierarchy_(hierarchy), counts_(counts), grain_(grain), of_lanes_(hierarchy.neighbours().size(), 0) {
    for (std::size_t h = 0; h < hierarchy.hosts(); ++h) {
      std::size_t block = 0;
      for (const Rank rank : hierarchy.ranks_of(h)) block += count(rank);
      blocks_.push_back(block);
      of_hosts_.push_back(part(h, hierarchy.local()).size());
      for (std::size_t lane = 0; lane < hierarchy.lanes(); ++lane) of_lanes_[lane] += part(h, lane).size();
    }
  }

  [[nodiscard]] std::size_t count(Rank rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  // Of all lower ranks together.
  [[nodiscard]] std::size_t before(Rank rank) const {
    return std::accumulate(counts_.begin(), counts_.begin() + rank, std::size_t{0});
  }
  [[nodiscard]] const Counts& blocks() const noexcept { return blocks_; }  // of each host
  // Of a host's block; empty where there is no such lane.
  [[nodiscard]] collectives::Range part(std::size_t host, std::size_t lane) const {
    return hierarchy_.part_of_lane(blocks_[host], lane, grain_);
  }
  [[nodiscard]] const Counts& of_hosts() const noexcept { return of_hosts_; }  // each host's part in this rank's lane
  [[nodiscard]] const Counts& of_lanes() const noexcept { return of_lanes_; }  // by local rank: its parts of all blocks

 private:
  const Hierarchy& hierarchy_;
  std::span<const std::size_t> counts_;
  std::size_t grain_;
  Counts blocks_;
  Counts of_hosts_;
  Counts of_lanes_;
};

}  // namespace kolo::comm

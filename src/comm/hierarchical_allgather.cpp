// Uneven allgather over several hosts, in rank order although ranks need not be numbered host by host.
//
//   host 0: ranks 0 2 (a c)      host 1: ranks 1 3 (b d)
//
//   inside      every host's block: [a c]   [b d]
//   across      lane j moves part j of every block: lane 0 has [a b], lane 1 has [c d]
//   inside      the lanes' results one after another: [a b | c d]
//   copied out  [a b c d]
//
// Each byte enters each host once.
#include <cstring>
#include <numeric>

#include "comm/staged_operation.h"

namespace kolo::comm {
namespace {

using collectives::part_of;
using collectives::Range;
using Where = StagedOperation::Where;
using Counts = std::vector<std::size_t>;

std::size_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }

class Gather {
 public:
  Gather(Hierarchy& hierarchy, const AllgatherOptions& options)
      : hierarchy_(hierarchy), options_(options), of_lanes_(hierarchy.neighbours().size(), 0) {
    for (const Rank rank : hierarchy.neighbours()) of_neighbours_.push_back(count(rank));
    for (std::size_t h = 0; h < hierarchy.hosts(); ++h) {
      std::size_t bytes = 0;
      for (const Rank rank : hierarchy.ranks_of(h)) bytes += count(rank);
      blocks_.push_back(bytes);
      of_hosts_.push_back(part(h, hierarchy.local()).size());
      for (std::size_t lane = 0; lane < hierarchy.lanes(); ++lane) of_lanes_[lane] += part(h, lane).size();
    }
    block_.resize(blocks_[hierarchy.host()]);
    if (hierarchy.in_a_lane()) lane_.resize(sum(of_hosts_));
    all_.resize(sum(blocks_));
  }

  [[nodiscard]] std::unique_ptr<Operation> collect() {
    return hierarchy_.inside().start(AllgatherOptions{options_.input, of_neighbours_, block_.data()});
  }
  [[nodiscard]] std::unique_ptr<Operation> cross() {
    if (!hierarchy_.in_a_lane()) return nullptr;
    const Range mine = part(hierarchy_.host(), hierarchy_.local());
    return hierarchy_.across().start(AllgatherOptions{block_.data() + mine.begin, of_hosts_, lane_.data()});
  }
  [[nodiscard]] std::unique_ptr<Operation> spread() {
    return hierarchy_.inside().start(AllgatherOptions{lane_.data(), of_lanes_, all_.data()});
  }
  // all_ goes through lane by lane and host by host: the parts of a block make it up again, and then its ranks follow
  // each other.
  std::unique_ptr<Operation> sort() {
    std::vector<Counts> read(hierarchy_.hosts());  // where each lane's part of a host's block lies
    std::size_t at = 0;
    for (std::size_t lane = 0; lane < hierarchy_.lanes(); ++lane) {
      for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) {
        read[h].push_back(at);
        at += part(h, lane).size();
      }
    }
    for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) {
      std::vector<std::byte> block(blocks_[h]);
      for (std::size_t lane = 0; lane < hierarchy_.lanes(); ++lane) {
        const Range bytes = part(h, lane);
        if (bytes.size() != 0) std::memcpy(block.data() + bytes.begin, all_.data() + read[h][lane], bytes.size());
      }
      std::size_t taken = 0;
      for (const Rank rank : hierarchy_.ranks_of(h)) {
        if (count(rank) != 0) std::memcpy(options_.output + offset(rank), block.data() + taken, count(rank));
        taken += count(rank);
      }
    }
    return nullptr;
  }

 private:
  [[nodiscard]] std::size_t count(Rank rank) const { return options_.counts[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t offset(Rank rank) const {
    return std::accumulate(options_.counts.begin(), options_.counts.begin() + rank, std::size_t{0});
  }
  // Of a host's block; empty where there is no such lane.
  [[nodiscard]] Range part(std::size_t host, std::size_t lane) const {
    if (lane >= hierarchy_.lanes()) return {};
    return part_of(blocks_[host], static_cast<int>(hierarchy_.lanes()), static_cast<int>(lane),
                   collectives::kCacheLine);
  }

  Hierarchy& hierarchy_;  // kept alive by the operation
  AllgatherOptions options_;
  Counts of_neighbours_;  // bytes of each rank of this host
  Counts blocks_;         // bytes of each host
  Counts of_hosts_;       // bytes of each host's part in this rank's lane
  Counts of_lanes_;       // bytes that each local rank has after crossing
  std::vector<std::byte> block_;
  std::vector<std::byte> lane_;
  std::vector<std::byte> all_;
};

}  // namespace

std::unique_ptr<Operation> start_hierarchical_allgather(const HierarchyPtr& hierarchy,
                                                        const AllgatherOptions& options) {
  const auto work = std::make_shared<Gather>(*hierarchy, options);
  std::vector<StagedOperation::Stage> stages;
  stages.push_back({Where::inside, [work] { return work->collect(); }});
  stages.push_back({Where::across, [work] { return work->cross(); }});
  stages.push_back({Where::inside, [work] { return work->spread(); }});
  stages.push_back({Where::inside, [work] { return work->sort(); }});
  return std::make_unique<StagedOperation>(hierarchy, std::move(stages));
}

}  // namespace kolo::comm

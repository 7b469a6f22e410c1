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

#include "comm/host_blocks.h"
#include "comm/staged_operation.h"

namespace kolo::comm {
namespace {

using collectives::Range;
using Where = StagedOperation::Where;
using Counts = HostBlocks::Counts;

std::size_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }

class Gather {
 public:
  Gather(Hierarchy& hierarchy, const AllgatherOptions& options)
      : hierarchy_(hierarchy), options_(options), blocks_(hierarchy, options.counts, collectives::kCacheLine) {
    for (const Rank rank : hierarchy.neighbours()) of_neighbours_.push_back(blocks_.count(rank));
    block_.resize(blocks_.blocks()[hierarchy.host()]);
    if (hierarchy.in_a_lane()) lane_.resize(sum(blocks_.of_hosts()));
    all_.resize(sum(blocks_.blocks()));
  }

  [[nodiscard]] std::unique_ptr<Operation> collect() {
    return hierarchy_.inside().start(AllgatherOptions{options_.input, of_neighbours_, block_.data()});
  }
  [[nodiscard]] std::unique_ptr<Operation> cross() {
    if (!hierarchy_.in_a_lane()) return nullptr;
    const Range mine = blocks_.part(hierarchy_.host(), hierarchy_.local());
    return hierarchy_.across().start(AllgatherOptions{block_.data() + mine.begin, blocks_.of_hosts(), lane_.data()});
  }
  [[nodiscard]] std::unique_ptr<Operation> spread() {
    return hierarchy_.inside().start(AllgatherOptions{lane_.data(), blocks_.of_lanes(), all_.data()});
  }
  // all_ goes through lane by lane and host by host: the parts of a block make it up again, and then its ranks follow
  // each other.
  std::unique_ptr<Operation> sort() {
    std::vector<Counts> read(hierarchy_.hosts());  // where each lane's part of a host's block lies
    std::size_t at = 0;
    for (std::size_t lane = 0; lane < hierarchy_.lanes(); ++lane) {
      for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) {
        read[h].push_back(at);
        at += blocks_.part(h, lane).size();
      }
    }
    for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) {
      std::vector<std::byte> block(blocks_.blocks()[h]);
      for (std::size_t lane = 0; lane < hierarchy_.lanes(); ++lane) {
        const Range bytes = blocks_.part(h, lane);
        if (bytes.size() != 0) std::memcpy(block.data() + bytes.begin, all_.data() + read[h][lane], bytes.size());
      }
      std::size_t taken = 0;
      for (const Rank rank : hierarchy_.ranks_of(h)) {
        const std::size_t bytes = blocks_.count(rank);
        if (bytes != 0) std::memcpy(options_.output + blocks_.before(rank), block.data() + taken, bytes);
        taken += bytes;
      }
    }
    return nullptr;
  }

 private:
  Hierarchy& hierarchy_;  // kept alive by the operation
  AllgatherOptions options_;
  HostBlocks blocks_;     // in bytes; of_lanes() is what each local rank has after crossing
  Counts of_neighbours_;  // bytes of each rank of this host
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

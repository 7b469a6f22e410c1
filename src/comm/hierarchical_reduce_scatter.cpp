// Uneven reduce-scatter over several hosts.
//
//   sorted      the input as [lane 0: part 0 of host 0's block, of host 1's ..][lane 1: part 1 of host 0's block ..],
//               where a host's block is what its ranks receive, one after another
//   inside      reduce-scatter: lane j has the host's sum of section j
//   across      reduce-scatter: lane j has the sum of part j of its own host's block
//   inside      allgather: everybody has his host's block, and takes his own
//
// Each byte leaves a host (h-1)/h times. An average is a sum until the end, in 64 bits for shorter integers.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/widen.h"
#include "comm/staged_operation.h"

namespace kolo::comm {
namespace {

using namespace collectives;
using Where = StagedOperation::Where;
using Counts = std::vector<std::size_t>;

class Scatter {
 public:
  Scatter(Hierarchy& hierarchy, const ReduceScatterOptions& options)
      : hierarchy_(hierarchy),
        options_(options),
        wide_(needs_wide_sums(options.dtype, options.op)),
        sum_(partial_reduction(options.dtype, options.op)),
        element_(size_of(sum_.dtype)),
        of_lanes_(hierarchy.neighbours().size(), 0),
        pieces_(hierarchy.neighbours().size(), 0) {
    for (std::size_t h = 0; h < hierarchy.hosts(); ++h) {
      std::size_t block = 0;
      for (const Rank rank : hierarchy.ranks_of(h)) block += count(rank);
      blocks_.push_back(block);
      of_hosts_.push_back(part(h, hierarchy.local()).size());
      for (std::size_t lane = 0; lane < hierarchy.lanes(); ++lane) of_lanes_[lane] += part(h, lane).size();
    }
    for (std::size_t lane = 0; lane < hierarchy.lanes(); ++lane) {
      const std::size_t bytes = part(hierarchy.host(), lane).size() * element_;
      pieces_[lane] = bytes;
    }
    section_.resize(of_lanes_[hierarchy.local()] * element_);
    piece_.resize(pieces_[hierarchy.local()]);
    block_.resize(blocks_[hierarchy.host()] * element_);
  }

  [[nodiscard]] std::unique_ptr<Operation> inside() {
    sort();
    return hierarchy_.inside().start(
        ReduceScatterOptions{sorted_.data(), of_lanes_, section_.data(), sum_.dtype, sum_.op});
  }
  [[nodiscard]] std::unique_ptr<Operation> across() {
    if (!hierarchy_.in_a_lane()) return nullptr;
    return hierarchy_.across().start(
        ReduceScatterOptions{section_.data(), of_hosts_, piece_.data(), sum_.dtype, sum_.op});
  }
  [[nodiscard]] std::unique_ptr<Operation> spread() {
    return hierarchy_.inside().start(AllgatherOptions{piece_.data(), pieces_, block_.data()});
  }

  std::unique_ptr<Operation> take_own() {
    std::size_t before = 0;
    for (std::size_t i = 0; i < hierarchy_.local(); ++i) before += count(hierarchy_.neighbours()[i]);
    const std::size_t mine = count(hierarchy_.neighbours()[hierarchy_.local()]);
    if (mine == 0) return nullptr;
    std::byte* own = block_.data() + before * element_;
    const std::byte* const sum = own;
    combine({sum_.dtype, options_.op}, {&sum, 1}, wide_ ? own : options_.output, mine, true, hierarchy_.size());
    if (wide_) narrow(reinterpret_cast<const std::int64_t*>(own), options_.dtype, mine, options_.output);
    return nullptr;
  }

 private:
  [[nodiscard]] std::size_t count(Rank rank) const { return options_.counts[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Range part(std::size_t host, std::size_t lane) const {
    if (lane >= hierarchy_.lanes()) return {};
    return part_of(blocks_[host], static_cast<int>(hierarchy_.lanes()), static_cast<int>(lane), line_grain(sum_.dtype));
  }

  void sort() {
    std::vector<std::vector<std::byte>> blocks;
    for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) blocks.push_back(block_of(h));
    sorted_.reserve(std::accumulate(of_lanes_.begin(), of_lanes_.end(), std::size_t{0}) * element_);
    for (std::size_t lane = 0; lane < hierarchy_.lanes(); ++lane) {
      for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) {
        const Range elements = part(h, lane);
        const std::byte* from = blocks[h].data();
        sorted_.insert(sorted_.end(), from + elements.begin * element_, from + elements.end * element_);
      }
    }
  }

  // This rank's contribution to what the ranks of `host` receive.
  [[nodiscard]] std::vector<std::byte> block_of(std::size_t host) const {
    std::vector<std::byte> block(blocks_[host] * element_);
    std::byte* to = block.data();
    for (const Rank rank : hierarchy_.ranks_of(host)) {
      const std::size_t before =
          std::accumulate(options_.counts.begin(), options_.counts.begin() + rank, std::size_t{0});
      const std::byte* from = options_.input + before * size_of(options_.dtype);
      if (wide_) {
        widen(from, options_.dtype, count(rank), reinterpret_cast<std::int64_t*>(to));
      } else if (count(rank) != 0) {
        std::memcpy(to, from, count(rank) * element_);
      }
      to += count(rank) * element_;
    }
    return block;
  }

  Hierarchy& hierarchy_;  // kept alive by the operation
  ReduceScatterOptions options_;
  bool wide_;
  Reduction sum_;
  std::size_t element_;  // bytes, of the sums
  Counts blocks_;        // elements that each host receives
  Counts of_hosts_;      // elements of each host in this rank's section
  Counts of_lanes_;      // elements of each local rank's section
  Counts pieces_;        // bytes of this host's block that each local rank has after crossing
  std::vector<std::byte> sorted_;
  std::vector<std::byte> section_;
  std::vector<std::byte> piece_;
  std::vector<std::byte> block_;
};

}  // namespace

std::unique_ptr<Operation> start_hierarchical_reduce_scatter(const HierarchyPtr& hierarchy,
                                                             const ReduceScatterOptions& options) {
  const auto work = std::make_shared<Scatter>(*hierarchy, options);
  std::vector<StagedOperation::Stage> stages;
  stages.push_back({Where::inside, [work] { return work->inside(); }});
  stages.push_back({Where::across, [work] { return work->across(); }});
  stages.push_back({Where::inside, [work] { return work->spread(); }});
  stages.push_back({Where::inside, [work] { return work->take_own(); }});
  return std::make_unique<StagedOperation>(hierarchy, std::move(stages));
}

}  // namespace kolo::comm

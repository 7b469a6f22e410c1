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
#include "comm/host_blocks.h"
#include "comm/staged_operation.h"

namespace kolo::comm {
namespace {

using namespace collectives;
using Where = StagedOperation::Where;
using Counts = HostBlocks::Counts;

class Scatter {
 public:
  Scatter(Hierarchy& hierarchy, const ReduceScatterOptions& options)
      : hierarchy_(hierarchy),
        options_(options),
        wide_(needs_wide_sums(options.dtype, options.op)),
        sum_(partial_reduction(options.dtype, options.op)),
        element_(size_of(sum_.dtype)),
        blocks_(hierarchy, options.counts, line_grain(sum_.dtype)),
        pieces_(hierarchy.neighbours().size(), 0) {
    for (std::size_t lane = 0; lane < hierarchy.lanes(); ++lane) {
      pieces_[lane] = blocks_.part(hierarchy.host(), lane).size() * element_;
    }
    section_.resize(blocks_.of_lanes()[hierarchy.local()] * element_);
    piece_.resize(pieces_[hierarchy.local()]);
    block_.resize(blocks_.blocks()[hierarchy.host()] * element_);
  }

  [[nodiscard]] std::unique_ptr<Operation> inside() {
    sort();
    return hierarchy_.inside().start(
        ReduceScatterOptions{sorted_.data(), blocks_.of_lanes(), section_.data(), sum_.dtype, sum_.op});
  }
  [[nodiscard]] std::unique_ptr<Operation> across() {
    if (!hierarchy_.in_a_lane()) return nullptr;
    return hierarchy_.across().start(
        ReduceScatterOptions{section_.data(), blocks_.of_hosts(), piece_.data(), sum_.dtype, sum_.op});
  }
  [[nodiscard]] std::unique_ptr<Operation> spread() {
    return hierarchy_.inside().start(AllgatherOptions{piece_.data(), pieces_, block_.data()});
  }

  std::unique_ptr<Operation> take_own() {
    std::size_t before = 0;
    for (std::size_t i = 0; i < hierarchy_.local(); ++i) before += blocks_.count(hierarchy_.neighbours()[i]);
    const std::size_t mine = blocks_.count(hierarchy_.neighbours()[hierarchy_.local()]);
    if (mine == 0) return nullptr;
    std::byte* own = block_.data() + before * element_;
    const std::byte* const sum = own;
    std::byte* const output = wide_ ? own : options_.output;
    combine({sum_.dtype, options_.op}, {&sum, 1}, {&output, 1}, mine, {true, hierarchy_.size()});
    if (wide_) narrow(reinterpret_cast<const std::int64_t*>(own), options_.dtype, mine, options_.output);
    return nullptr;
  }

 private:
  void sort() {
    std::vector<std::vector<std::byte>> blocks;
    for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) blocks.push_back(block_of(h));
    const Counts& of_lanes = blocks_.of_lanes();
    sorted_.reserve(std::accumulate(of_lanes.begin(), of_lanes.end(), std::size_t{0}) * element_);
    for (std::size_t lane = 0; lane < hierarchy_.lanes(); ++lane) {
      for (std::size_t h = 0; h < hierarchy_.hosts(); ++h) {
        const Range elements = blocks_.part(h, lane);
        const std::byte* from = blocks[h].data();
        sorted_.insert(sorted_.end(), from + elements.begin * element_, from + elements.end * element_);
      }
    }
  }

  // This rank's contribution to what the ranks of `host` receive.
  [[nodiscard]] std::vector<std::byte> block_of(std::size_t host) const {
    std::vector<std::byte> block(blocks_.blocks()[host] * element_);
    std::byte* to = block.data();
    for (const Rank rank : hierarchy_.ranks_of(host)) {
      const std::size_t count = blocks_.count(rank);
      const std::byte* from = options_.input + blocks_.before(rank) * size_of(options_.dtype);
      if (wide_) {
        widen(from, options_.dtype, count, reinterpret_cast<std::int64_t*>(to));
      } else if (count != 0) {
        std::memcpy(to, from, count * element_);
      }
      to += count * element_;
    }
    return block;
  }

  Hierarchy& hierarchy_;  // kept alive by the operation
  ReduceScatterOptions options_;
  bool wide_;
  Reduction sum_;
  std::size_t element_;  // bytes, of the sums
  HostBlocks blocks_;    // in elements, by who receives them; of_lanes() are the sections
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

// Allreduce along two trees (double_tree.cpp): each half of the data climbs one of them, being summed, and comes down
// the same one.
//
//   p = 4    up    first half   1 -> 2 <- 3   2 -> 0        second half   2 -> 3 <- 1   3 -> 0
//            down  first half   0 -> 2   1 <- 2 -> 3        second half   0 -> 3   2 <- 3 -> 1
//
// All four at once, a segment each: rank 2 has two children above and none below, rank 3 the other way round.
#include <array>

#include "collectives/flagged_allreduce.h"
#include "collectives/tree_flow.h"

namespace kolo::collectives {
namespace {

class TreeAllreduce {
 public:
  TreeAllreduce(transport::Transport& transport, const AllreducePlan& plan)
      : flows_{flow(transport, plan, 0), flow(transport, plan, 1)} {}

  bool advance() {
    const bool first = flows_[0].advance();
    return flows_[1].advance() && first;
  }
  [[nodiscard]] std::vector<Rank> waiting_for() const {
    const std::vector<Rank> first = flows_[0].waiting_for();
    return first.empty() ? flows_[1].waiting_for() : first;
  }

 private:
  static TreeFlow flow(transport::Transport& transport, const AllreducePlan& plan, int tree) {
    const std::size_t element = size_of(plan.reduction.dtype);
    const TreeShares shares = tree_shares(plan.count, element, plan.segment_bytes);
    const Range& half = shares.half[tree];
    return {transport,
            {.node = tree_node(tree, transport.rank(), transport.size(), 0),
             .tag = plan.tag + static_cast<transport::Tag>(tree),
             .data = plan.data + half.begin * element,
             .count = half.size(),
             .segment_elements = shares.segment_elements,
             .reduction = plan.reduction,
             .dtype = plan.reduction.dtype}};
  }

  std::array<TreeFlow, 2> flows_;
};

}  // namespace

std::unique_ptr<Operation> start_tree_allreduce(const NetworkParts& parts, const AllreduceOptions& options) {
  return std::make_unique<FlaggedAllreduce<TreeAllreduce>>(parts, options);
}

}  // namespace kolo::collectives

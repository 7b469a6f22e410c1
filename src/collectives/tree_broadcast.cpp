// Broadcast along two trees (double_tree.cpp): the root sends one half of the data to the top of each, every other rank
// passes on one half to two children and receives the other as a leaf.
//
//   p = 4, root 0     first half   0 -> 2   1 <- 2 -> 3        second half   0 -> 3   2 <- 3 -> 1
//
// N bytes leave every rank that has children at most, as in a chain, but after ceil(log2 p) hops instead of p - 1.
#include <array>

#include "collectives/network.h"
#include "collectives/tree_flow.h"

namespace kolo::collectives {
namespace {

class TreeBroadcast final : public Machine {
 public:
  TreeBroadcast(const NetworkParts& parts, const BroadcastOptions& options)
      : Machine(parts.group), flows_{flow(parts, options, 0), flow(parts, options, 1)} {}

  [[nodiscard]] std::vector<Rank> waiting_for() const override {
    const std::vector<Rank> first = flows_[0].waiting_for();
    return first.empty() ? flows_[1].waiting_for() : first;
  }

 private:
  bool step() override {
    const bool first = flows_[0].advance();
    return flows_[1].advance() && first;
  }

  static TreeFlow flow(const NetworkParts& parts, const BroadcastOptions& options, int tree) {
    transport::Transport& transport = *parts.group->transport;
    const TreeShares shares = tree_shares(options.bytes, 1, parts.segment_bytes);
    const Range& half = shares.half[tree];
    return {transport,
            {.node = tree_node(tree, transport.rank(), transport.size(), options.root),
             .tag = parts.tag + static_cast<transport::Tag>(tree),
             .data = options.data + half.begin,
             .count = half.size(),
             .segment_elements = shares.segment_elements,
             .reduction = std::nullopt,
             .dtype = DType::u8}};
  }

  std::array<TreeFlow, 2> flows_;
};

}  // namespace

std::unique_ptr<Operation> start_tree_broadcast(const NetworkParts& parts, const BroadcastOptions& options) {
  return std::make_unique<TreeBroadcast>(parts, options);
}

}  // namespace kolo::collectives

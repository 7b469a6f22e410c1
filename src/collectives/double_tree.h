#pragma once
// Two binary trees over the same ranks. See double_tree.cpp.
#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/reduction.h"

namespace kolo::collectives {

struct TreeNode {
  std::optional<Rank> parent;  // none: the root
  std::vector<Rank> children;  // 0 to 2: the one whose subtree comes before this rank's place, the one after it
};

// Place of `rank` in tree 0 or 1. Both have `root` on top; no other rank has children in both.
[[nodiscard]] TreeNode tree_node(int tree, Rank rank, int size, Rank root);

// How elements of `element_bytes` are shared between the trees, and how many make a segment.
struct TreeShares {
  // Bytes; below, a share is not worth a tree of its own, nor a segment a message.
  static constexpr std::size_t kSmallestShare = std::size_t{16} << 10;
  // That a share is cut into at least, when it is long enough: they fill the levels of the tree.
  static constexpr std::size_t kSegmentsPerShare = 8;

  Range half[2];
  std::size_t segment_elements = 1;
};
[[nodiscard]] TreeShares tree_shares(std::size_t count, std::size_t element_bytes, std::size_t segment_bytes);

}  // namespace kolo::collectives

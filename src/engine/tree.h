#pragma once
// The tree along which control messages go: rank 0 is the root, children of r are 2r+1 and 2r+2.
//
//          0            depth of p ranks: floor(log2 p)
//        /   \          .
//       1     2
//      / \   /
//     3   4 5
#include <vector>

#include "kolo/types.h"

namespace kolo::engine {

struct Tree {
  Rank rank = 0;
  int size = 1;

  [[nodiscard]] bool is_root() const noexcept { return rank == 0; }
  [[nodiscard]] Rank parent() const noexcept { return (rank - 1) / 2; }  // REQUIRES: not the root
  [[nodiscard]] std::vector<Rank> children() const;
  [[nodiscard]] std::vector<Rank> neighbours() const;
  // `top` and everything below it, ascending.
  [[nodiscard]] std::vector<Rank> subtree(Rank top) const;
};

}  // namespace kolo::engine

// Two binary trees (Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
// Parallel Computing 2009).
//
// In one binary tree a leaf sends each byte once and an inner rank three times (one up, two down), so half the ranks
// leave most of their link idle. Therefore data is halved and each half gets a tree of its own, in which the inner
// ranks of the other are leaves. The root stands above both; the others form in-order trees of places 1 ... p-1:
//
//        _ root           Odd places are leaves, even ones are inner nodes. In the first tree a rank's place is its
//       |                 distance from the root. In the second the order is reversed when p is odd, and turned by
//    _  4  _              one when p is even: both exchange odd and even places.
//   |       |
//   2       6
//  | |     | |
//  1 3     5 7
//
//   p = 4, root 0:   first half   0 - 2 - {1, 3}      second half   0 - 3 - {2, 1}
//   p = 5, root 0:   first half   0 - 4 - {2 - {1, 3}}              second half   0 - 1 - {3 - {4, 2}}
//
// In an allreduce an inner rank sends one half up and two down in one tree, and one up in the other as a leaf: 2N in
// all, and it receives as much; the root sends and receives N. In a broadcast a rank with children sends N.
//
// Cost of an allreduce: 2 ceil(log2 p) (alpha + S beta) + 2 N beta + N gamma with segments of S bytes; of a broadcast:
// ceil(log2 p) (alpha + S beta) + N beta. Logarithmic latency, and p/(p-1) of the ring's bytes.
#include "collectives/double_tree.h"

#include <algorithm>
#include <bit>

namespace kolo::collectives {
namespace {

// The in-order tree over places 1 ... size - 1, with place 0 above it. The height of a place is its number of trailing
// zeros: a node of height h has its children 2^(h-1) to either side; where there is no place that far to the right, the
// highest one there is.
int parent_of(int place, int size) {
  const int step = place & -place;
  const int above = (place ^ step) | (step << 1);
  return above < size ? above : place ^ step;
}

std::vector<int> children_of(int place, int size) {
  if (place == 0) return {static_cast<int>(std::bit_floor(static_cast<unsigned>(size - 1)))};
  std::vector<int> children;
  int step = (place & -place) / 2;
  if (step > 0) children.push_back(place - step);
  while (step > 0 && place + step >= size) step /= 2;
  if (step > 0) children.push_back(place + step);
  return children;
}

// Places of the second tree as places of the first, which is how ranks are counted from the root on. And back.
int second_to_first(int place, int size) {
  if (place == 0) return 0;
  if (size % 2 == 1) return size - place;
  return place + 1 < size ? place + 1 : 1;
}

int first_to_second(int place, int size) {
  if (place == 0) return 0;
  if (size % 2 == 1) return size - place;
  return place > 1 ? place - 1 : size - 1;
}

}  // namespace

TreeNode tree_node(int tree, Rank rank, int size, Rank root) {
  const int from_root = (rank + size - root) % size;
  const int place = tree == 0 ? from_root : first_to_second(from_root, size);
  const auto rank_at = [=](int other) { return ((tree == 0 ? other : second_to_first(other, size)) + root) % size; };
  TreeNode node;
  if (place != 0) node.parent = rank_at(parent_of(place, size));
  for (const int child : children_of(place, size)) node.children.push_back(rank_at(child));
  return node;
}

TreeShares tree_shares(std::size_t count, std::size_t element_bytes, std::size_t segment_bytes) {
  const std::size_t bytes = count * element_bytes;
  const Range first =
      bytes < 2 * TreeShares::kSmallestShare ? Range{0, count} : part_of(count, 2, 0, kCacheLine / element_bytes);
  const std::size_t share = first.size() * element_bytes;
  const std::size_t wanted = std::max(TreeShares::kSmallestShare, share / TreeShares::kSegmentsPerShare);
  return {{first, {first.end, count}}, std::max<std::size_t>(1, std::min(segment_bytes, wanted) / element_bytes)};
}

}  // namespace kolo::collectives

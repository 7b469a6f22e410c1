#include "engine/tree.h"

#include <algorithm>

namespace kolo::engine {

std::vector<Rank> Tree::children() const {
  std::vector<Rank> result;
  for (const std::int64_t child : {2 * std::int64_t{rank} + 1, 2 * std::int64_t{rank} + 2}) {
    if (child < size) result.push_back(static_cast<Rank>(child));
  }
  return result;
}

std::vector<Rank> Tree::neighbours() const {
  auto result = children();
  if (!is_root()) result.push_back(parent());
  return result;
}

std::vector<Rank> Tree::subtree(Rank top) const {
  std::vector<Rank> result{top};
  for (std::size_t next = 0; next < result.size(); ++next) {
    for (const Rank child : Tree{result[next], size}.children()) result.push_back(child);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace kolo::engine

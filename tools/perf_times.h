#pragma once
// What is said of many times that one operation took.
#include <cstddef>
#include <vector>

namespace kolo::tools {

// The smallest that at least `percent` of all are not above (the nearest rank).
// REQUIRES: sorted, not empty; 0 < percent <= 100.
[[nodiscard]] inline double percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

}  // namespace kolo::tools

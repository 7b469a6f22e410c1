#pragma once
// What the cost model does not know of a group: how much longer, or shorter, each way takes there than it says.
#include <cstddef>
#include <map>
#include <vector>

#include "comm/cost_model.h"

namespace kolo::comm {

// Factors on cost_us(), at some sizes; between two of them it is interpolated, before the first and after the last it
// stays. Equal on all ranks of the group.
class Corrections {
 public:
  Corrections() = default;
  explicit Corrections(const Surroundings& of) : of_(of) {}
  // REQUIRES: more bytes than at the last call for this way.
  void add(Way way, std::size_t bytes, double factor) { points_[way].push_back({bytes, factor}); }
  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  // Nothing is known of groups on other ranks, or beside others.
  [[nodiscard]] bool are_of(const Surroundings& group) const noexcept;
  [[nodiscard]] double factor(Way way, std::size_t bytes) const;
  // The largest size that anything is known of.
  [[nodiscard]] std::size_t up_to() const noexcept;

 private:
  struct Point {
    std::size_t bytes;
    double factor;
  };
  Surroundings of_;
  std::map<Way, std::vector<Point>> points_;
};

// What ways are chosen by: equal on all ranks of a group.
struct Costs {
  CostConstants constants = fixed_costs();
  Corrections corrections = {};
};

}  // namespace kolo::comm

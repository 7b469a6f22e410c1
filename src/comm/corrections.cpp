#include "comm/corrections.h"

#include <algorithm>

namespace kolo::comm {

bool Corrections::are_of(const Surroundings& group) const noexcept {
  return !points_.empty() && of_.size == group.size && of_.hosts == group.hosts && of_.sharing == group.sharing;
}

// As the model: only elementary operations in a fixed order.
double Corrections::factor(Way way, std::size_t bytes) const {
  const auto found = points_.find(way);
  if (found == points_.end()) return 1;
  const std::vector<Point>& points = found->second;
  const auto above = std::ranges::lower_bound(points, bytes, {}, &Point::bytes);
  if (above == points.begin()) return above->factor;
  const Point& below = *std::prev(above);
  if (above == points.end()) return below.factor;
  const double part = static_cast<double>(bytes - below.bytes) / static_cast<double>(above->bytes - below.bytes);
  return below.factor + part * (above->factor - below.factor);
}

std::size_t Corrections::up_to() const noexcept {
  std::size_t most = 0;
  for (const auto& [way, points] : points_) most = std::max(most, points.back().bytes);
  return most;
}

}  // namespace kolo::comm

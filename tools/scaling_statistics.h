#pragma once
// Medians of step times, and how far chance may have moved them.
//
// Neighbouring steps resemble each other (a busy moment lasts for several), so the interval is over blocks: the
// bootstrap draws whole blocks of kBlockSteps steps. Source: Kunsch, "The Jackknife and the Bootstrap for General
// Stationary Observations", 1989; the blocks here do not overlap.
#include <cstddef>
#include <span>
#include <vector>

namespace kolo::tools {

inline constexpr std::size_t kBlockSteps = 20;

using Block = std::vector<double>;

struct Interval {
  double value = 0;
  double low = 0;  // the 95 % confidence interval
  double high = 0;
};

// The value below which `share` of the values lie, with linear interpolation. REQUIRES: not empty.
[[nodiscard]] double quantile(std::vector<double> values, double share);
[[nodiscard]] double median(std::vector<double> values);

// The values of one run in blocks; what is left at the end joins the last block. Empty for fewer than one block.
[[nodiscard]] std::vector<Block> blocks_of(std::span<const double> values);

// The median of all values. REQUIRES: a block. With fewer than three blocks the interval is infinite: chance is
// unknown.
[[nodiscard]] Interval median_interval(const std::vector<Block>& blocks);
// The ratio of the medians of two independent measurements.
[[nodiscard]] Interval ratio_interval(const std::vector<Block>& numerator, const std::vector<Block>& denominator);

}  // namespace kolo::tools

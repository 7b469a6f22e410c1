#pragma once
// Times of all ranks by the clock of rank 0.
//
//   clock of another host minus that of rank 0
//     ^                        .  x        x: a reduction that both ranks took part in: their ends, subtracted
//     |            x   . x x               .: offset + slope * time, which is subtracted
//     |   x  .  x  x
//     |.
//     | offset, measured at the start by messages
//     +------------------------------> time
//
// A reduction ends on all ranks at nearly the same time, with delays of either sign: a rank notices the end when it
// looks. So the reductions say how fast a clock drifts, and the head of the timeline how far apart the clocks began.
//
// The slope is the median of the slopes between all pairs of points (Theil, "A rank-invariant method of linear and
// polynomial regression analysis", 1950; its confidence interval: Sen, "Estimates of the regression coefficient based
// on Kendall's tau", 1968). Of many reductions a point is the median of neighbours, which bounds the number of pairs
// and takes out stragglers. Bound: let each point be right within e. Half of all pairs are at least 0.29 of the
// duration apart. So no event is moved wrongly by more than 2 e / 0.29 < 7 e.
//
// Cost: n log n for n reductions, and 256 * 255 / 2 pairs.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace_timeline.h"

namespace kolo::tools {

// A reduction that two ranks took part in.
struct ClockPoint {
  std::int64_t end_ns = 0;    // by the clock that is measured
  std::int64_t apart_ns = 0;  // minus its end by the clock of rank 0
};

// The drift of the clock: nanoseconds by which it gains on that of rank 0 in each of its own nanoseconds. None if the
// points are few or within two seconds, if the drift cannot be told from 0, or if it exceeds 0.001.
// Changes the order of the points.
[[nodiscard]] std::optional<double> measure_drift(std::vector<ClockPoint>& points);

// One clock, of all ranks on a host.
struct HostClock {
  std::string host;
  bool is_reference = false;  // that of rank 0
  std::int64_t low_ns = 0;    // its offset at start_ns is between these
  std::int64_t high_ns = 0;
  std::optional<std::int64_t> start_ns;  // the first event
  std::optional<double> drift;

  [[nodiscard]] std::int64_t offset_ns() const noexcept { return low_ns + (high_ns - low_ns) / 2; }
  // A time of this clock by that of rank 0. Keeps the order of times.
  [[nodiscard]] std::int64_t correct(std::int64_t ns) const noexcept;
};

// The clock of the rank with this head, as an index into `clocks`; adds it if it is new. Ranks of one host whose
// offsets contradict each other have different clocks: hosts of the same name.
[[nodiscard]] std::size_t clock_of(const TimelineHead& head, std::vector<HostClock>& clocks);

// The end of a reduction on one rank.
struct ReductionEnd {
  std::int64_t track = 0;
  std::uint64_t round = 0;
  std::int64_t end_ns = 0;
};

// Prepares for common_reductions(): sorts, and keeps the order of equals, which are rounds of several optimizers.
void sort_reductions(std::vector<ReductionEnd>& ends);
// Appends the reductions that are in both. REQUIRES: both are sorted.
void append_common_reductions(const std::vector<ReductionEnd>& rank_0, const std::vector<ReductionEnd>& ends,
                              std::vector<ClockPoint>& points);

}  // namespace kolo::tools

#include "trace_clock.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kolo::tools {
namespace {

constexpr std::size_t kFewestPoints = 32;
constexpr std::size_t kMostWindows = 256;
constexpr std::int64_t kShortestNs = 2'000'000'000;
constexpr double kLargestDrift = 1e-3;  // NTP changes the rate of a clock by at most 0.0005
constexpr double kDeviations = 3;       // of the confidence interval

double median_of(std::vector<double>& values, std::size_t begin, std::size_t end) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto middle = first + static_cast<std::ptrdiff_t>((end - begin) / 2);
  std::nth_element(first, middle, values.begin() + static_cast<std::ptrdiff_t>(end));
  return *middle;
}

struct Points {
  std::vector<double> x;
  std::vector<double> y;
};

// Medians of at most kMostWindows groups of neighbours, relative to the first point.
Points windows_of(const std::vector<ClockPoint>& points) {
  std::vector<double> x;
  std::vector<double> y;
  for (const ClockPoint& point : points) {
    x.push_back(static_cast<double>(point.end_ns - points.front().end_ns));
    y.push_back(static_cast<double>(point.apart_ns - points.front().apart_ns));
  }
  const std::size_t count = std::min(points.size(), kMostWindows);
  Points windows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * points.size() / count;
    const std::size_t end = (i + 1) * points.size() / count;
    windows.x.push_back(median_of(x, begin, end));
    windows.y.push_back(median_of(y, begin, end));
  }
  return windows;
}

auto identity_of(const ReductionEnd& end) noexcept { return std::tie(end.track, end.round); }

}  // namespace

std::optional<double> measure_drift(std::vector<ClockPoint>& points) {
  if (points.size() < kFewestPoints) return std::nullopt;
  std::ranges::sort(points, {}, &ClockPoint::end_ns);
  if (points.back().end_ns - points.front().end_ns < kShortestNs) return std::nullopt;
  const Points windows = windows_of(points);
  const std::size_t count = windows.x.size();
  std::vector<double> slopes;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) {
      if (windows.x[j] == windows.x[i]) continue;
      slopes.push_back((windows.y[j] - windows.y[i]) / (windows.x[j] - windows.x[i]));
    }
  }
  std::ranges::sort(slopes);
  // Sen: the interval is between the slopes this many places below and above the median.
  const auto n = static_cast<double>(count);
  const auto places = static_cast<std::size_t>(kDeviations * std::sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2);
  const std::size_t middle = slopes.size() / 2;
  const double low = slopes[middle - std::min(middle, places)];
  const double high = slopes[std::min(middle + places, slopes.size() - 1)];
  if ((low <= 0 && high >= 0) || std::abs(slopes[middle]) > kLargestDrift) return std::nullopt;
  return slopes[middle];
}

std::int64_t HostClock::correct(std::int64_t ns) const noexcept {
  const double moved = drift.value_or(0) * static_cast<double>(ns - start_ns.value_or(ns));
  return ns - offset_ns() - std::llround(moved);
}

std::size_t clock_of(const TimelineHead& head, std::vector<HostClock>& clocks) {
  HostClock found;
  found.host = head.host;
  found.low_ns = head.clock_offset_ns - head.clock_error_ns;
  found.high_ns = head.clock_offset_ns + head.clock_error_ns;
  // Ranks on the host of rank 0 measure nothing.
  found.is_reference = head.rank == 0;
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    HostClock& clock = clocks[i];
    if (clock.host != found.host || clock.low_ns > found.high_ns || clock.high_ns < found.low_ns) continue;
    if (clock.is_reference && head.clock_offset_ns != 0) continue;
    clock.low_ns = std::max(clock.low_ns, found.low_ns);
    clock.high_ns = std::min(clock.high_ns, found.high_ns);
    return i;
  }
  clocks.push_back(found);
  return clocks.size() - 1;
}

void sort_reductions(std::vector<ReductionEnd>& ends) {
  std::ranges::stable_sort(
      ends, [](const ReductionEnd& a, const ReductionEnd& b) { return identity_of(a) < identity_of(b); });
}

void append_common_reductions(const std::vector<ReductionEnd>& rank_0, const std::vector<ReductionEnd>& ends,
                              std::vector<ClockPoint>& points) {
  auto theirs = rank_0.begin();
  auto ours = ends.begin();
  while (theirs != rank_0.end() && ours != ends.end()) {
    if (identity_of(*theirs) < identity_of(*ours)) {
      ++theirs;
    } else if (identity_of(*ours) < identity_of(*theirs)) {
      ++ours;
    } else {
      points.push_back({ours->end_ns, ours->end_ns - theirs->end_ns});
      ++theirs;
      ++ours;
    }
  }
}

}  // namespace kolo::tools

#pragma once
// How a rank copies what it shows into its lane: through its caches or past them.
//
// A line that a peer has read is taken from it again before it is written. Among cores of one cache group that costs a
// few nanoseconds; between two groups of some processors it takes 30, several times as long as writing the line to
// memory and reading it from there (docs/decisions/0010). No table of processors says where two ranks run, and a
// hypervisor may move them: so what fills take decides on the next ones. No value depends on it, and every rank decides
// for itself.
//
//   through the caches  -- three slow in a row -->  three past them  -- at most half the time -->  252 more past them
//      ^        ^                                          |                                              |
//      |        '---- 255 through them, unlooked at <------' else                                         |
//      '--------------------------------------------------------------------------------------------------'
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/cache_line.h"

namespace kolo::collectives {

class FillWay {
 public:
  // Shorter fills go through the caches and are not looked at.
  static constexpr std::size_t kLooked = 16 * 1024;
  static constexpr int kFills = 255;  // without a look at the other way
  static constexpr int kTried = 3;    // in a row: one may have been interrupted

  // For the next fill of kLooked bytes or more.
  [[nodiscard]] bool past_caches() const noexcept { return past_; }
  // What it took.
  void took(std::size_t bytes, std::chrono::nanoseconds time) noexcept {
    const double line = static_cast<double>(time.count()) / static_cast<double>(bytes / base::kCacheLine);
    if (unlooked_ > 0) {
      if (--unlooked_ == 0) past_ = false;
    } else if (past_) {
      try_past(line);
    } else {
      look(line);
    }
  }

 private:
  static constexpr double kSlow = 12;  // ns a line: 2 to 6 were seen in one group, 28 between two

  void look(double line) noexcept {
    tried_ = line > kSlow ? tried_ + 1 : 0;
    through_ = tried_ == 1 ? line : std::min(through_, line);
    if (tried_ == kTried) start(true);
  }
  void try_past(double line) noexcept {
    past_line_ = ++tried_ == 1 ? line : std::min(past_line_, line);
    if (tried_ < kTried) return;
    start(2 * past_line_ < through_);
    unlooked_ = past_ ? kFills - kTried : kFills;
  }
  void start(bool past) noexcept {
    past_ = past;
    tried_ = 0;
  }

  bool past_ = false;
  int tried_ = 0;       // slow ones through the caches, or any past them, in a row
  int unlooked_ = 0;    // fills to come that decide nothing
  double through_ = 0;  // the fastest of `tried_`, ns a line
  double past_line_ = 0;
};

}  // namespace kolo::collectives

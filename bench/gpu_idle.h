#pragma once
// When a device did nothing, and between what. Pure.
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::bench {

// What ran on a device: a kernel, a copy, a fill. In whichever stream.
struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::string name;
};

// All gaps behind one kind of work and before another.
struct Gap {
  std::string after;
  std::string before;
  double number = 0;
  double us = 0;
};

// Between the first of the spans and the last, the longest kind first. `steps` is how many steps the spans are of,
// which figures are divided by.
[[nodiscard]] std::vector<Gap> gaps_between(std::vector<Span> spans, int steps);

// {"us": 812.10, "number": 40.00, "longest": [{"after": ..., "before": ..., "number": ..., "us": ...}, ...]}
[[nodiscard]] std::string json_of(const std::vector<Gap>& gaps);

}  // namespace kolo::bench

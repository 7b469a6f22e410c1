#pragma once
// The step log (docs/formats.md) of one rank of a program that reduces its gradients after backward, without kolo.
//
//   PeerLog log("run/steps", placement, {{"threads", "1"}});  // run/steps.rank3.jsonl
//   log.first_gradient(); log.last_gradient(); log.reduced(); log.updated(1, bytes);  // in each step
//
// A step lasts from one updated() to the next. The clocks of the ranks are not compared, so clock_error_us is null.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "kolo/types.h"

namespace kolo::bench {

// Not thread-safe.
class PeerLog {
 public:
  // `start`: the value of KOLO_STEP_LOG; empty: no log. Throws UsageError if the file cannot be opened.
  PeerLog(const std::string& start, const Placement& placement, const std::map<std::string, std::string>& facts);

  void first_gradient() { first_gradient_ = Clock::now(); }
  void last_gradient() { last_gradient_ = Clock::now(); }
  void reduced() { reduced_ = Clock::now(); }
  // The weights are updated. Writes the line of the step.
  void updated(std::size_t reductions, std::uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  std::ofstream file_;
  std::int64_t step_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point first_gradient_, last_gradient_, reduced_;
};

}  // namespace kolo::bench

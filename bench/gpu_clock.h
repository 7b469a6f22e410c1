#pragma once
// What a device takes for what is enqueued, several ways in turns.
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace kolo::bench {

// One way to do something.
struct Way {
  std::string what;     // "pack f32", which is compared only with its like
  std::string variant;  // "kolo", "foreach_copy"
  double bytes = 0;     // that it reads and writes, at the least
  std::function<void()> body;
  std::function<void()> renew;  // rewrites what the body reads; may be empty
};

struct Timing {
  double median = 0;  // microseconds
  double p10 = 0;
  double p90 = 0;
};

// Each way once a round, in an order that changes, `rounds` times; two more rounds before are not counted. Enqueues in
// `stream`, which is the current one. Before each, its inputs are rewritten and the device's caches filled with
// something else; that also keeps the device busy while the host enqueues, so that host time is seen only where a way
// needs more of it than that takes.
[[nodiscard]] std::vector<Timing> time_in_turns(const std::vector<Way>& ways, const c10::Stream& stream, int rounds);

// JSON lines on stdout, which script/gpu-check reads. GB/s, and as a fraction of the rate of `copy_gbps`.
void print_timings(const std::vector<Way>& ways, const std::vector<Timing>& timings, double copy_gbps);

}  // namespace kolo::bench

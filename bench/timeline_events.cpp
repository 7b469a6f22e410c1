// Measures the cost of a timeline event for the calling thread.
//
//   timeline_events FILE   the timeline goes to FILE.rank0.json
//
// Blocks of ranges with and without a timeline alternate in one process. The cost of an event is the difference of a
// pair of blocks; the result is the median over the pairs, with the quartiles.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include "kolo/kolo.h"

namespace {

constexpr int kPairs = 21;
constexpr int kEvents = 100'000;

double nanoseconds_of_an_event(const kolo::Context& context) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kEvents; ++i) const kolo::TimelineRange range(context, "event");
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kEvents;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: timeline_events FILE\n");
    return 2;
  }
  try {
    const auto context = kolo::Context::create();
    std::vector<double> costs;
    double off = 0;
    for (int pair = 0; pair < kPairs; ++pair) {
      off = nanoseconds_of_an_event(*context);
      context->start_timeline(argv[1]);
      costs.push_back(nanoseconds_of_an_event(*context) - off);
      context->stop_timeline();
    }
    std::ranges::sort(costs);
    const auto counters = context->counters();
    std::printf("an event: %.0f ns [%.0f, %.0f]; off: %.1f ns; events %llu, dropped %llu\n", costs[kPairs / 2],
                costs[kPairs / 4], costs[3 * kPairs / 4], off,
                static_cast<unsigned long long>(counters.at("timeline_events")),
                static_cast<unsigned long long>(counters.at("timeline_dropped")));
    context->shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "timeline_events: %s\n", error.what());
    return 1;
  }
}

#pragma once
// Starts the step log and the timeline of a Context: the offsets of the ranks' clocks, and the files.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kolo/config.h"
#include "kolo/types.h"
#include "telemetry/counters.h"
#include "telemetry/logger.h"
#include "telemetry/recorder.h"

namespace kolo::runtime {

// Collective: returns every rank's text, in rank order.
using Allgather = std::function<std::vector<std::string>(const std::string& mine)>;

struct ClockOffset {
  std::int64_t offset_ns = 0;  // this rank's clock minus rank 0's
  std::int64_t error_ns = 0;   // at most
};

// Collective. Ranks on rank 0's host share its clock, so their offset is 0. `clock` is Recorder::now_ns, except in
// tests.
[[nodiscard]] ClockOffset measure_clock_offset(Rank rank, bool on_host_of_rank_0, const Allgather& allgather,
                                               const telemetry::Recorder::Clock& clock);

// Returns the facts about this rank for the head of a file.
[[nodiscard]] telemetry::RunFacts run_facts(const Placement& placement, const Config& config,
                                            const ClockOffset& offset);
// "run/steps", 3 and ".jsonl": "run/steps.rank3.jsonl".
[[nodiscard]] std::string file_of_rank(const std::string& start, Rank rank, const std::string& end);

// Collective: if `open` throws UsageError on a rank, every rank throws it, with the rank. Other exceptions become
// BackendError.
void open_on_all(Rank rank, const Allgather& allgather, const std::function<void()>& open);

}  // namespace kolo::runtime

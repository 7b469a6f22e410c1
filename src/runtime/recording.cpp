#include "runtime/recording.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kolo/error.h"

namespace kolo::runtime {
namespace {

// Rounds of the exchange. The shortest ones count.
constexpr int kRounds = 8;

struct Exchange {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

std::int64_t number_in(const std::string& text) { return std::stoll(text); }

}  // namespace

// In each round every rank writes down when it sends and when it has received all texts. What rank 0 sends at its time
// s0 arrives here before r, and what this rank sends at s arrives there before r0. So offset <= r - s0 and
// offset >= s - r0. A later round tells r0.
ClockOffset measure_clock_offset(Rank rank, bool on_host_of_rank_0, const Allgather& allgather,
                                 const telemetry::Recorder::Clock& clock) {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  Exchange last;
  for (int round = 0; round <= kRounds; ++round) {
    const Exchange before = last;
    last.sent = clock();
    const auto texts = allgather(std::to_string(last.sent) + " " + std::to_string(before.received));
    last.received = clock();
    const std::string& first = texts.front();
    if (round < kRounds) high = std::min(high, last.received - number_in(first));
    if (round > 0) low = std::max(low, before.sent - number_in(first.substr(first.find(' '))));
  }
  if (rank == 0 || on_host_of_rank_0) return {};
  if (high < low) std::swap(low, high);  // the clocks drifted apart meanwhile: the offset was both
  const std::int64_t error = (high - low + 1) / 2;
  return {low + error, error};
}

telemetry::RunFacts run_facts(const Placement& placement, const Config& config, const ClockOffset& offset) {
  telemetry::RunFacts facts;
  facts.rank = placement.rank;
  facts.size = placement.size;
  facts.host = placement.host;
  facts.clock_offset_ns = offset.offset_ns;
  facts.clock_error_ns = offset.error_ns;
  facts.facts["local_cores"] = std::to_string(placement.local_cores);
  facts.facts["local_ranks"] = std::to_string(placement.local_size);
  for (const ConfigVariable& variable : describe(config)) {
    if (variable.value != variable.default_value) facts.facts[variable.name] = variable.value;
  }
  return facts;
}

std::string file_of_rank(const std::string& start, Rank rank, const std::string& end) {
  return start + ".rank" + std::to_string(rank) + end;
}

// The first letter of what is gathered is the type of the error.
void open_on_all(Rank rank, const Allgather& allgather, const std::function<void()>& open) {
  const std::string place = "rank " + std::to_string(rank) + ": ";
  std::string error;
  try {
    open();
  } catch (const UsageError& failure) {
    error = "U" + place + failure.what();
  } catch (const std::exception& failure) {
    error = "B" + place + failure.what();
  }
  const auto errors = allgather(error);
  const auto first = std::ranges::find_if(errors, [](const std::string& text) { return !text.empty(); });
  if (first == errors.end()) return;
  if (first->front() == 'U') throw UsageError(first->substr(1));
  throw BackendError(first->substr(1));
}

}  // namespace kolo::runtime

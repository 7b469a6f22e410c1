// The part of a Context that records training steps.
#include <memory>
#include <utility>

#include "kolo/context.h"
#include "kolo/error.h"
#include "runtime/context_parts.h"

namespace kolo {

using runtime::Allgather;

namespace {

telemetry::RunFacts facts_of(const Placement& placement, const Config& config, const runtime::ClockOffset& offset,
                             runtime::Way way) {
  telemetry::RunFacts facts = runtime::run_facts(placement, config, offset);
  if (way == runtime::Way::tcp) facts.facts["network"] = "tcp";
  if (way == runtime::Way::mpi) facts.facts["network"] = "mpi";
  return facts;
}

}  // namespace

void Context::Parts::start_recording(const Allgather& allgather) {
  const Placement& placement = bootstrap->placement();
  if (!config.step_log.empty()) {
    measure_clock(allgather);
    runtime::open_on_all(placement.rank, allgather, [&] {
      recorder->start_step_log(
          std::make_unique<telemetry::StepLog>(runtime::file_of_rank(config.step_log, placement.rank, ".jsonl"),
                                               facts_of(placement, config, *clock_offset, engine_wires.way),
                                               [this](const std::string& line) { logger.warn(line); }));
    });
  }
  if (!config.timeline.empty()) start_timeline(config.timeline, allgather);
}

// Ranks that are threads share a clock, and are made by one thread.
void Context::Parts::start_recording_alone() {
  if (clock_offset || (config.step_log.empty() && config.timeline.empty())) return;
  clock_offset.emplace();
  start_recording([](const std::string& mine) { return std::vector<std::string>{mine}; });
}

void Context::Parts::start_timeline(const std::string& file, const Allgather& allgather) {
  const Placement& placement = bootstrap->placement();
  measure_clock(allgather);
  bool started = false;
  try {
    runtime::open_on_all(placement.rank, allgather, [&] {
      if (recorder->has_timeline()) throw UsageError("timeline: one is running already; call stop_timeline() before");
      recorder->start_timeline(
          std::make_unique<telemetry::Timeline>(runtime::file_of_rank(file, placement.rank, ".json"),
                                                facts_of(placement, config, *clock_offset, engine_wires.way), counters,
                                                [this](const std::string& line) { logger.warn(line); }));
      started = true;
    });
  } catch (...) {
    if (started) recorder->stop_timeline();  // another rank has none
    throw;
  }
}

// Unless it has been: the step log and the timeline of one start share a measurement.
void Context::Parts::measure_clock(const Allgather& allgather) {
  if (clock_offset) return;
  const Placement& placement = bootstrap->placement();
  clock_offset =
      runtime::measure_clock_offset(placement.rank, placement.cross_rank == 0, allgather, telemetry::Recorder::now_ns);
}

void Context::start_timeline(const std::string& file) {
  parts_->require_open("Context::start_timeline()");
  parts_->clock_offset.reset();  // clocks have drifted since the last measurement
  parts_->start_timeline(file, [this](const std::string& mine) { return gather_texts(*this, "start_timeline", mine); });
}

void Context::stop_timeline() { parts_->recorder->stop_timeline(); }

TimelineRange::TimelineRange(const Context& context, const char* name) noexcept
    : context_(context),
      name_(name),
      start_ns_(context.parts_->recorder->has_timeline() ? telemetry::Recorder::now_ns() : 0) {}

TimelineRange::~TimelineRange() {
  if (start_ns_ == 0) return;
  telemetry::TimelineEvent event;
  event.name = name_;
  event.begin_ns = start_ns_;
  event.end_ns = telemetry::Recorder::now_ns();
  context_.parts_->recorder->add(event);
}

}  // namespace kolo

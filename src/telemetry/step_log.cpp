#include "telemetry/step_log.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/system_error.h"
#include "telemetry/run_file.h"

namespace kolo::telemetry {
namespace {

// Lines leave in blocks: a small step must not pay for a system call.
constexpr std::size_t kBlock = 64 << 10;
constexpr std::int64_t kFlushNs = 100'000'000;

struct Field {
  std::string_view name;
  std::int64_t StepTimes::*ns;
};

constexpr std::array<Field, 9> kFields{{{"start_us", &StepTimes::start_ns},
                                        {"step_us", &StepTimes::step_ns},
                                        {"before_first_gradient_us", &StepTimes::before_first_gradient_ns},
                                        {"backward_us", &StepTimes::backward_ns},
                                        {"exposed_us", &StepTimes::exposed_ns},
                                        {"optimizer_us", &StepTimes::optimizer_ns},
                                        {"other_us", &StepTimes::other_ns},
                                        {"communication_us", &StepTimes::communication_ns},
                                        {"synchronize_us", &StepTimes::synchronize_ns}}};

}  // namespace

StepLog::StepLog(const std::string& path, RunFacts facts, Warn warn)
    : path_(path),
      facts_(std::move(facts)),
      warn_(std::move(warn)),
      file_(open_run_file("step log", path, OpenMode::append)) {}

StepLog::~StepLog() {
  if (!head_written_) write_head();
  flush();
}

void StepLog::describe(const std::string& name, const std::string& value) { facts_.facts[name] = value; }

void StepLog::write_head() {
  head_written_ = true;
  buffer_ += head_of("step_log", facts_) + "\n";
}

// Times in microseconds with three decimals, so that the fields of a line add up exactly.
bool StepLog::write(std::uint64_t step, const StepTimes& times) {
  if (!file_) return false;
  if (!head_written_) write_head();
  buffer_ += "{\"kind\":\"step\",\"step\":" + std::to_string(step);
  for (const Field& field : kFields) {
    std::int64_t ns = times.*field.ns;
    if (field.ns == &StepTimes::start_ns) ns -= facts_.clock_offset_ns;
    buffer_ += ",\"";
    buffer_ += field.name;
    buffer_ += "\":" + microseconds_text(ns);
  }
  buffer_ += ",\"reductions\":" + std::to_string(times.reductions) +
             ",\"reduced_bytes\":" + std::to_string(times.reduced_bytes) + "}\n";
  const std::int64_t now = times.start_ns + times.step_ns;
  if (buffer_.size() < kBlock && now - flushed_ns_ < kFlushNs) return true;
  flushed_ns_ = now;
  flush();
  return static_cast<bool>(file_);
}

void StepLog::flush() noexcept {
  if (!file_) return;
  const int error = write_all(file_.get(), buffer_);
  buffer_.clear();
  if (error == 0) return;
  file_.reset();
  try {
    warn_("step log: state=ended file=" + path_ + " error=\"" + base::errno_text(error) +
          "\". Training continues. Free space, or set KOLO_STEP_LOG to a file on another disk");
  } catch (const std::exception&) {  // no memory for the words
  }
}

}  // namespace kolo::telemetry

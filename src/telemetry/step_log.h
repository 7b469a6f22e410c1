#pragma once
// The step log of one rank: JSON lines, first a head, then one line for each step. docs/formats.md has the fields.
#include <cstdint>
#include <functional>
#include <string>

#include "base/unique_fd.h"
#include "telemetry/run_file.h"
#include "telemetry/step_account.h"

namespace kolo::telemetry {

// Not thread-safe.
class StepLog {
 public:
  using Warn = std::function<void(const std::string&)>;
  // Appends to `path`. Throws UsageError if the file cannot be opened. `warn` gets one line if a write fails: the log
  // then ends, and training goes on.
  StepLog(const std::string& path, RunFacts facts, Warn warn);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  // Before the first step.
  void describe(const std::string& name, const std::string& value);
  // Returns false if the log has ended.
  bool write(std::uint64_t step, const StepTimes& times);
  void flush() noexcept;

 private:
  void write_head();

  std::string path_;
  RunFacts facts_;
  Warn warn_;
  base::UniqueFd file_;
  std::string buffer_;
  std::int64_t flushed_ns_ = 0;
  bool head_written_ = false;
};

}  // namespace kolo::telemetry

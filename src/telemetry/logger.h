#pragma once
#include <string>
#include <string_view>

#include "kolo/config.h"

namespace kolo::telemetry {

// Hands lines of `threshold` and above to the sink, each behind `prefix`. Cheap to copy, thread-safe if the sink is
// (the default one is). Never throws: what a sink throws, and memory running out while a line is put together, is lost.
class Logger {
 public:
  // An empty sink means stderr.
  explicit Logger(LogLevel threshold = LogLevel::info, LogSink sink = {}, std::string prefix = "kolo: ");
  // The same sink for one rank: its lines start with "kolo rank 3: ".
  [[nodiscard]] Logger for_rank(int rank) const;

  [[nodiscard]] bool enabled(LogLevel level) const noexcept { return level >= threshold_; }
  void write(LogLevel level, std::string_view line) const noexcept;
  void debug(std::string_view line) const noexcept { write(LogLevel::debug, line); }
  void info(std::string_view line) const noexcept { write(LogLevel::info, line); }
  void warn(std::string_view line) const noexcept { write(LogLevel::warn, line); }
  void error(std::string_view line) const noexcept { write(LogLevel::error, line); }

 private:
  LogLevel threshold_;
  LogSink sink_;
  std::string prefix_;
};

// Writes "12:34:56.789 W line" to stderr; safe from any thread.
[[nodiscard]] LogSink make_stderr_sink();

}  // namespace kolo::telemetry

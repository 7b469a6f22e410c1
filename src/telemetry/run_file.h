#pragma once
// Parts that the step log and the timeline share.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace kolo::telemetry {

// Facts about the writing rank, for the head of a file.
struct RunFacts {
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t clock_offset_ns = 0;          // this rank's clock minus rank 0's
  std::int64_t clock_error_ns = 0;           // the offset is right within this
  std::map<std::string, std::string> facts;  // versions, settings
};

// Opens a file for this process alone, and creates it. Throws UsageError that begins with `what` if the file cannot be
// opened, or if another Context writes to it.
enum class OpenMode : std::uint8_t { append, replace };
[[nodiscard]] base::UniqueFd open_run_file(const std::string& what, const std::string& path, OpenMode mode);
// The head as one line of JSON. `kind`: of the file.
[[nodiscard]] std::string head_of(std::string_view kind, const RunFacts& facts);
// As a string of JSON, with its quotes.
[[nodiscard]] std::string quoted(std::string_view text);
// "1234.567"
[[nodiscard]] std::string microseconds_text(std::int64_t ns);
// Returns 0, or the errno of the write that failed.
[[nodiscard]] int write_all(int file, std::string_view text) noexcept;

}  // namespace kolo::telemetry

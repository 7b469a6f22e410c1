#pragma once
// A timeline as a rank of kolo writes it (KOLO_TIMELINE), read line by line.
//
//   TimelineReader reader(path, false);
//   for (TraceEvent event; reader.next(event);) ...
//
// Every error is a UsageError that names file and line and says what to do.
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "trace_event.h"

namespace kolo::tools {

// What the head of a timeline says.
struct TimelineHead {
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t clock_offset_ns = 0;  // the clock of this rank minus that of rank 0
  std::int64_t clock_error_ns = 0;   // the offset is right within this
  std::string facts;                 // JSON object, or empty
};

class TimelineReader {
 public:
  // `partial`: of a timeline that is cut off, the complete lines are read. Reads the head.
  TimelineReader(std::string path, bool partial);

  [[nodiscard]] const TimelineHead& head() const noexcept { return head_; }
  // Replaces `event`. Returns false at the end.
  bool next(TraceEvent& event);
  // After next() returned false: the timeline has its last line.
  [[nodiscard]] bool is_complete() const noexcept { return complete_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  bool read_line();
  void read_head();
  void close();
  bool cut_off(const std::string& what);

  std::string path_;
  bool partial_;
  std::ifstream file_;
  std::vector<char> block_;   // of file_, as the next one
  std::vector<char> memory_;  // of a line
  std::string_view line_;
  std::uint64_t number_ = 0;  // of the line
  bool has_newline_ = false;  // the line
  bool more_ = true;          // the last line ended with a comma: an event follows
  bool complete_ = false;
  bool ended_ = false;
  TimelineHead head_;
};

}  // namespace kolo::tools

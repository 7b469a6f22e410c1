#pragma once
// One event of a timeline in Chrome's format, read from its line of JSON.
//
//   TraceEvent event;                    // one for many lines
//   parse_event(line, event);
//   append_time(text, *event.begin_ns);  // "1234.567"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kolo::tools {

struct TraceEvent {
  std::string name;
  std::string phase;                // "X": a span of time; "M": metadata, such as the name of a track
  std::optional<std::int64_t> tid;  // the track
  std::optional<std::int64_t> begin_ns;
  std::optional<std::int64_t> duration_ns;
  std::string args;                    // as JSON, or empty
  std::optional<std::uint64_t> round;  // in args, as the next one; of a reduction
  std::string algorithm;
  std::string rest;  // further fields, each as `,"key":value`
};

// Replaces `event`. Nanoseconds are exact for times with three decimals. Throws std::invalid_argument that says what is
// wrong with the line: it is not JSON, not an event, or its numbers are no times.
void parse_event(std::string_view line, TraceEvent& event);

// Microseconds with three decimals.
void append_time(std::string& text, std::int64_t ns);
// With quotes.
void append_quoted(std::string& text, std::string_view value);

}  // namespace kolo::tools

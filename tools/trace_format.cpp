#include "trace_format.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace kolo::tools {
namespace {

constexpr std::int64_t kComputeStream = 1;
constexpr std::int64_t kFirstBucketStream = 2;
constexpr std::array<std::string_view, 3> kComputePhases{"before first gradient", "backward", "optimizer"};

std::int64_t rounded_microseconds(std::int64_t ns) noexcept { return (ns + 500) / 1000; }

void append_field(std::string& text, std::string_view name, std::int64_t value) {
  text += ",\"";
  text += name;
  text += "\":";
  text += std::to_string(value);
}

void append_begin(std::string& text, std::string_view name, std::string_view phase, int rank) {
  text += ",\n{\"name\":";
  append_quoted(text, name);
  text += ",\"ph\":";
  append_quoted(text, phase);
  append_field(text, "pid", rank);
}

void append_end(std::string& text, const TraceEvent& event) {
  if (!event.args.empty()) {
    text += ",\"args\":";
    text += event.args;
  }
  text += event.rest;
  text += '}';
}

// Appends a field to an object in JSON, which may be empty.
std::string with_field(std::string_view object, std::string_view name, std::int64_t value) {
  std::string text(object.empty() ? "{" : object.substr(0, object.size() - 1));
  if (text.size() > 1) text += ',';
  text += '"';
  text += name;
  text += "\":" + std::to_string(value) + "}";
  return text;
}

// Metadata of rank files has a time, because without it HolisticTraceAnalysis takes all times for fractional numbers.
// It has no length, which makes fractional numbers of lengths: whole ones are added to times in 8 to 32 bits, and
// overflow.
void append_metadata(std::string& text, const TraceEvent& event, int rank, bool time) {
  const std::string_view start = time ? ",\"ts\":0" : "";
  append_begin(text, event.name, event.phase, rank);
  text += start;
  if (event.tid) append_field(text, "tid", *event.tid);
  append_end(text, event);
  if (event.name != "thread_name" || !event.tid) return;
  append_begin(text, "thread_sort_index", "M", rank);
  text += start;
  append_field(text, "tid", *event.tid);
  text += ",\"args\":{\"sort_index\":" + std::to_string(*event.tid) + "}}";
}

}  // namespace

void append_process(std::string& text, int rank, const std::string& host) {
  append_begin(text, "process_name", "M", rank);
  text += ",\"ts\":0,\"args\":{\"name\":";
  append_quoted(text, "rank " + std::to_string(rank) + " on " + host);
  text += "}}";
  append_begin(text, "process_sort_index", "M", rank);
  text += ",\"ts\":0,\"args\":{\"sort_index\":" + std::to_string(rank) + "}}";
}

void append_event(std::string& text, const TraceEvent& event, int rank, CorrectedTime time) {
  if (!event.begin_ns) {
    append_metadata(text, event, rank, false);
    return;
  }
  append_begin(text, event.name, event.phase, rank);
  if (event.tid) append_field(text, "tid", *event.tid);
  text += ",\"ts\":";
  append_time(text, time.begin_ns);
  if (event.duration_ns) {
    text += ",\"dur\":";
    append_time(text, time.end_ns - time.begin_ns);
  }
  append_end(text, event);
}

void append_rank_event(std::string& text, const TraceEvent& event, int rank, CorrectedTime time) {
  if (!event.begin_ns) {
    append_metadata(text, event, rank, true);
    return;
  }
  const bool reduction = event.round && event.tid >= kFirstBucketTrack;
  const bool phase = event.tid == kPhaseTrack;
  const bool compute = phase && std::ranges::find(kComputePhases, event.name) != kComputePhases.end();
  TraceEvent shown = event;
  std::string_view category = phase ? "user_annotation" : "cpu_op";
  if (reduction || compute) {
    category = "kernel";
    const std::int64_t stream = reduction ? kFirstBucketStream + *event.tid - kFirstBucketTrack : kComputeStream;
    shown.args = with_field(event.args, "stream", stream);
  }
  if (reduction) shown.name = "ncclKernel_" + event.algorithm;
  append_begin(text, shown.name, shown.phase, rank);
  text += ",\"cat\":\"";
  text += category;
  text += '"';
  if (shown.tid) append_field(text, "tid", *shown.tid);
  const std::int64_t begin = rounded_microseconds(time.begin_ns);
  append_field(text, "ts", begin);
  if (shown.duration_ns) append_field(text, "dur", rounded_microseconds(time.end_ns) - begin);
  append_end(text, shown);
}

}  // namespace kolo::tools

#pragma once
// Writes the events of `kolo trace merge`: one form for Perfetto, one for HolisticTraceAnalysis.
#include <cstdint>
#include <string>

#include "trace_event.h"

namespace kolo::tools {

// The tracks of a timeline: src/telemetry/timeline.h.
inline constexpr std::int64_t kPhaseTrack = 1;
inline constexpr std::int64_t kFirstBucketTrack = 1000;

// An event by the clock of rank 0, in nanoseconds since the first event of all ranks.
struct CorrectedTime {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// Each function appends `,\n` and a line. The name of a rank's process, and its place among the others:
void append_process(std::string& text, int rank, const std::string& host);
// As in the timeline. Behind the name of a track comes its place.
void append_event(std::string& text, const TraceEvent& event, int rank, CorrectedTime time);
// HolisticTraceAnalysis 0.5.0 knows two kinds of work, both on streams of a GPU: computation, and communication, which
// are kernels named ncclKernel... So a reduction is named ncclKernel_<algorithm>, on the stream of its bucket; the
// phases in which a rank computes are kernels on stream 1; everything else is no kernel. It truncates begin
// and end to microseconds, which makes short events negative. So times are rounded here.
void append_rank_event(std::string& text, const TraceEvent& event, int rank, CorrectedTime time);

}  // namespace kolo::tools

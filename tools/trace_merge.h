#pragma once
// `kolo trace merge`: the timelines of all ranks as one trace by one clock.
//
//   MergeSummary summary = merge_traces({.files = {"t.rank0.json", "t.rank1.json"}, .out = "merged"});
//
// It reads each file twice: first for the ends of reductions, which tell the drift of clocks, then to write. Memory: 24
// bytes for each reduction of two ranks, and 16 for each reduction of each rank on other hosts.
#include <cstdint>
#include <string>
#include <vector>

#include "trace_clock.h"
#include "trace_timeline.h"

namespace kolo::tools {

struct MergeOptions {
  std::vector<std::string> files;
  std::string out;
  bool partial = false;  // takes timelines that are cut off, and fewer than all ranks
};

struct MergedRank {
  std::string file;
  TimelineHead head;
  std::size_t clock = 0;  // index into MergeSummary::clocks
  std::uint64_t lines = 0;
  std::uint64_t events = 0;  // without metadata
  bool is_complete = false;
};

struct MergeSummary {
  std::vector<MergedRank> ranks;  // in order of rank
  std::vector<HostClock> clocks;
  std::vector<int> missing;    // ranks without a file
  std::int64_t origin_ns = 0;  // the first event by the clock of rank 0: time 0 of the traces
};

// Writes out/trace.json.gz and out/ranks/rank<R>.json. If it throws, it leaves no file. Throws UsageError for files and
// folders that it cannot use, and Error if a write fails.
[[nodiscard]] MergeSummary merge_traces(const MergeOptions& options);

}  // namespace kolo::tools

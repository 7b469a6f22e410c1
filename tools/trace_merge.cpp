#include "trace_merge.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "kolo/error.h"
#include "trace_format.h"
#include "trace_output.h"

namespace kolo::tools {
namespace {

constexpr std::size_t kBlock = 1 << 16;

// The ranks in order, with their heads. Throws if they are not those of one job.
std::vector<MergedRank> read_heads(const MergeOptions& options) {
  std::vector<MergedRank> ranks;
  for (const std::string& file : options.files) {
    ranks.push_back({.file = file, .head = TimelineReader(file, options.partial).head()});
  }
  if (ranks.empty()) throw UsageError("trace merge: no file to merge");
  std::ranges::stable_sort(ranks, {}, [](const MergedRank& rank) { return rank.head.rank; });
  const MergedRank& first = ranks.front();
  for (const MergedRank& rank : ranks) {
    if (rank.head.size == first.head.size) continue;
    throw UsageError("trace merge: timelines of two jobs: " + first.file + " is of " +
                     base::counted(static_cast<std::size_t>(first.head.size), "rank") + ", " + rank.file + " of " +
                     std::to_string(rank.head.size) + ". Pass the files of one job");
  }
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].head.rank != ranks[i - 1].head.rank) continue;
    throw UsageError("trace merge: " + ranks[i - 1].file + " and " + ranks[i].file + " are both of rank " +
                     std::to_string(ranks[i].head.rank) + ". Pass the files of one job, each once");
  }
  return ranks;
}

std::vector<int> missing_ranks(const std::vector<MergedRank>& ranks) {
  std::vector<int> missing;
  auto next = ranks.begin();
  for (int rank = 0; rank < ranks.front().head.size; ++rank) {
    if (next != ranks.end() && next->head.rank == rank) {
      ++next;
    } else {
      missing.push_back(rank);
    }
  }
  return missing;
}

// The first reading: the first event of each clock, and its drift.
class ClockReader {
 public:
  ClockReader(const MergeOptions& options, MergeSummary& summary)
      : options_(options), summary_(summary), points_(summary.clocks.size()) {}

  void read(MergedRank& rank) {
    std::vector<ReductionEnd> ends;
    HostClock& clock = summary_.clocks[rank.clock];
    const bool drifts = has_rank_0() && (rank.head.rank == 0 || !clock.is_reference);
    TimelineReader reader(rank.file, options_.partial);
    for (TraceEvent event; reader.next(event);) {
      ++rank.lines;
      if (!event.begin_ns) continue;
      ++rank.events;
      clock.start_ns = std::min(clock.start_ns.value_or(*event.begin_ns), *event.begin_ns);
      if (!drifts || !event.round || !event.duration_ns || !event.tid) continue;
      ends.push_back({*event.tid, *event.round, *event.begin_ns + *event.duration_ns});
    }
    rank.is_complete = reader.is_complete();
    sort_reductions(ends);
    if (rank.head.rank == 0) {
      rank_0_ = std::move(ends);
    } else if (drifts) {
      append_common_reductions(rank_0_, ends, points_[rank.clock]);
    }
  }

  void measure_drifts() {
    for (std::size_t i = 0; i < points_.size(); ++i) summary_.clocks[i].drift = measure_drift(points_[i]);
  }

 private:
  [[nodiscard]] bool has_rank_0() const { return summary_.ranks.front().head.rank == 0; }

  const MergeOptions& options_;
  MergeSummary& summary_;
  std::vector<ReductionEnd> rank_0_;
  std::vector<std::vector<ClockPoint>> points_;  // of each clock
};

// The second reading.
class TraceWriter {
 public:
  TraceWriter(const MergeOptions& options, const MergeSummary& summary, OutputFolder& folder)
      : options_(options),
        summary_(summary),
        folder_(folder),
        merged_(folder.add("trace.json.gz"), OutputFile::Kind::gzip) {}

  void write(const MergedRank& rank) {
    const int number = rank.head.rank;
    OutputFile file(folder_.add("ranks/rank" + std::to_string(number) + ".json"), OutputFile::Kind::text);
    std::string own;
    append_process(own, number, rank.head.host);
    append(merged_text_, own);
    // HolisticTraceAnalysis looks for `"rank": ` with its blank.
    own = R"({"distributedInfo": {"backend": "kolo", "rank": )" + std::to_string(number) +
          ", \"world_size\": " + std::to_string(rank.head.size) + "},\n\"traceEvents\":[\n" + own.substr(2);
    TimelineReader reader(rank.file, options_.partial);
    TraceEvent event;
    for (std::uint64_t line = 0; line < rank.lines && reader.next(event); ++line) {
      if (event.phase == "M" && event.name.starts_with("process_")) continue;  // is written already
      const CorrectedTime time = corrected(event, summary_.clocks[rank.clock]);
      append_event(merged_text_, event, number, time);
      append_rank_event(own, event, number, time);
      if (own.size() > kBlock) flush(own, file);
      if (merged_text_.size() > kBlock) flush(merged_text_, merged_);
    }
    own += "\n]}\n";
    flush(own, file);
    file.close();
  }

  void finish() {
    merged_text_ += "\n],\n\"otherData\":" + facts() + "}\n";
    flush(merged_text_, merged_);
    merged_.close();
  }

 private:
  // The first event of the trace has no comma before it.
  void append(std::string& text, const std::string& events) {
    text += begun_ ? events : "{\"traceEvents\":[\n" + events.substr(2);
    begun_ = true;
  }
  static void flush(std::string& text, OutputFile& file) {
    file.write(text);
    text.clear();
  }
  [[nodiscard]] CorrectedTime corrected(const TraceEvent& event, const HostClock& clock) const {
    if (!event.begin_ns) return {};
    const std::int64_t end = *event.begin_ns + event.duration_ns.value_or(0);
    return {clock.correct(*event.begin_ns) - summary_.origin_ns, clock.correct(end) - summary_.origin_ns};
  }
  [[nodiscard]] std::string facts() const;

  const MergeOptions& options_;
  const MergeSummary& summary_;
  OutputFolder& folder_;
  OutputFile merged_;
  std::string merged_text_;
  bool begun_ = false;
};

// What the traces were made of.
std::string TraceWriter::facts() const {
  std::string text = "{\"tool\":\"kolo trace merge\",\"origin_us\":";
  append_time(text, summary_.origin_ns);
  text += ",\"ranks\":[";
  for (const MergedRank& rank : summary_.ranks) {
    const HostClock& clock = summary_.clocks[rank.clock];
    text += &rank == &summary_.ranks.front() ? "\n" : ",\n";
    text += "{\"rank\":" + std::to_string(rank.head.rank) + ",\"host\":";
    append_quoted(text, rank.head.host);
    text += ",\"events\":" + std::to_string(rank.events) + ",\"complete\":" + (rank.is_complete ? "true" : "false") +
            ",\"clock_offset_us\":";
    append_time(text, clock.offset_ns());
    text += ",\"drift_ppm\":";
    text += clock.drift ? std::to_string(1e6 * *clock.drift) : "0";
    if (!rank.head.facts.empty()) text += ",\"facts\":" + rank.head.facts;
    text += "}";
  }
  return text + "\n]}";
}

void find_origin(MergeSummary& summary) {
  std::optional<std::int64_t> origin;
  for (const HostClock& clock : summary.clocks) {
    if (!clock.start_ns) continue;
    const std::int64_t start = clock.correct(*clock.start_ns);
    origin = std::min(origin.value_or(start), start);
  }
  summary.origin_ns = origin.value_or(0);
}

}  // namespace

MergeSummary merge_traces(const MergeOptions& options) {
  MergeSummary summary;
  summary.ranks = read_heads(options);
  summary.missing = missing_ranks(summary.ranks);
  if (!summary.missing.empty() && !options.partial) {
    throw UsageError("trace merge: no timeline of " + base::ranks_text(summary.missing) + ": the job had " +
                     std::to_string(summary.ranks.front().head.size) +
                     " ranks. Pass the files of all ranks, or use --partial");
  }
  OutputFolder folder(options.out);
  for (MergedRank& rank : summary.ranks) rank.clock = clock_of(rank.head, summary.clocks);
  ClockReader clocks(options, summary);
  for (MergedRank& rank : summary.ranks) clocks.read(rank);
  clocks.measure_drifts();
  find_origin(summary);
  TraceWriter writer(options, summary, folder);
  for (const MergedRank& rank : summary.ranks) writer.write(rank);
  writer.finish();
  folder.keep();
  return summary;
}

}  // namespace kolo::tools

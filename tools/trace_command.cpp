// `kolo trace`: works on the timelines of a job.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/strings.h"
#include "commands.h"
#include "trace_merge.h"

namespace kolo::tools {
namespace {

constexpr const char* kFooter = R"(Example:
  KOLO_TIMELINE=t mpirun -np 2 ./train && kolo trace merge t.rank*.json --out merged

Writes DIR/trace.json.gz, all ranks for https://ui.perfetto.dev, and DIR/ranks/rank<R>.json, one file for each rank
for HolisticTraceAnalysis. All times are by the clock of rank 0 and begin at 0. Clocks of other hosts are corrected
by the offset that was measured at the start, and by the drift that the common reductions show.)";

void print(const MergeOptions& options, const MergeSummary& summary) {
  std::size_t events = 0;
  for (const MergedRank& rank : summary.ranks) {
    events += rank.events;
    if (!rank.is_complete) {
      std::fprintf(stderr, "kolo trace merge: %s is cut off; merged its %s\n", rank.file.c_str(),
                   base::counted(rank.events, "complete event").c_str());
    }
  }
  if (!summary.missing.empty()) {
    std::fprintf(stderr, "kolo trace merge: no timeline of %s\n", base::ranks_text(summary.missing).c_str());
  }
  std::printf("%s/trace.json.gz: %s, %s\n", options.out.c_str(), base::counted(summary.ranks.size(), "rank").c_str(),
              base::counted(events, "event").c_str());
  for (const HostClock& clock : summary.clocks) {
    if (clock.is_reference) continue;
    std::printf("clock of %s: offset %.1f us (within %.1f us), drift ", clock.host.c_str(),
                1e-3 * static_cast<double>(clock.offset_ns()),
                0.5e-3 * static_cast<double>(clock.high_ns - clock.low_ns));
    if (clock.drift) {
      std::printf("%.3f us each second\n", 1e6 * *clock.drift);
    } else {
      std::printf("not measurable\n");
    }
  }
}

}  // namespace

void add_trace_command(CLI::App& app) {
  CLI::App* trace = app.add_subcommand("trace", "Merge the timelines of all ranks");
  trace->require_subcommand(1);
  CLI::App* merge = trace->add_subcommand("merge", "Merge the timelines of all ranks into one trace by one clock");
  auto options = std::make_shared<MergeOptions>();  // shared with the callback, which outlives this call
  merge->add_option("FILES", options->files, "Timelines of all ranks: NAME.rank<R>.json of KOLO_TIMELINE=NAME")
      ->required()
      ->type_name("");
  merge->add_option("--out", options->out, "Folder to create, or an empty one")->required()->type_name("DIR");
  merge->add_flag("--partial", options->partial,
                  "Merge the complete lines of files that are cut off, and some of the ranks");
  merge->footer(kFooter);
  merge->callback([options] { print(*options, merge_traces(*options)); });
}

}  // namespace kolo::tools

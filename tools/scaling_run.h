#pragma once
// Runs all rows of a plan, interleaved. OUT keeps each complete run; an interrupted command continues there.
//
//   OUT/plan.json                     what the runs are of
//   OUT/runs/<row>/<repetition>/      steps.rank<R>.jsonl, output.txt; done.json comes last
//   OUT/results.json                  rewritten after each run
//   OUT/index.html                    its report, rewritten with it
//   OUT/trace/                        `kolo trace merge` of a short run with the most ranks
#include <functional>
#include <vector>

#include "scaling_plan.h"
#include "scaling_results.h"

namespace kolo::tools {

// Starts no run that would end after the time budget; the same command continues. Throws UsageError if a run fails
// (complete runs are kept), OUT belongs to another plan, or the budget is too short for one run. Throws Interrupted.
// `show` gets the results when all rows are measured or the budget ends; the run for the trace follows.
void run_rows(const ScalingOptions& options, const std::vector<Row>& rows, const Environment& environment,
              const std::function<void(const nlohmann::ordered_json& results)>& show);

// The rows and their commands; the time they take, from a short run with one rank.
[[nodiscard]] std::string describe_rows(const ScalingOptions& options, const std::vector<Row>& rows);

}  // namespace kolo::tools

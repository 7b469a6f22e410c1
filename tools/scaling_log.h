#pragma once
// The step logs of one run of a program: a file for each rank (docs/formats.md, "Step log").
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

// One step. Times are the mean over ranks, in milliseconds.
struct StepSample {
  double step_ms = 0;
  double before_first_gradient_ms = 0;
  double backward_ms = 0;
  double exposed_ms = 0;
  double optimizer_ms = 0;
  double other_ms = 0;
  double communication_ms = 0;  // NaN: not known
  // Mean time from a rank's call of step() or synchronize() to the last rank's call, and the last rank. 0 and -1
  // without a reduction; NaN and -1 if the clocks of the ranks are not compared.
  double slowest_wait_ms = 0;
  int slowest_rank = -1;
  double reduced_bytes = 0;  // of one rank
};

[[nodiscard]] std::vector<double> step_times(const std::vector<StepSample>& steps);

struct RunLog {
  std::vector<StepSample> steps;
  std::map<std::string, std::string> facts;  // of rank 0
  std::vector<std::string> hosts;            // of the ranks
  int local_cores = 0;                       // the fewest of a rank's host
  int local_ranks = 0;                       // the most ranks of one host
  double clock_error_ms = 0;                 // of the slowest wait, at most
};

// "FOLDER/steps": the value of KOLO_STEP_LOG.
[[nodiscard]] std::string step_log_start(const std::filesystem::path& folder);
// "steps", 3 and ".jsonl": "steps.rank3.jsonl", as the ranks name their files.
[[nodiscard]] std::string file_of_rank(const std::string& start, int rank, const std::string& end);

// Counts the steps that a rank's file holds, while it grows. Reads only what is new.
class StepCounter {
 public:
  StepCounter(const std::filesystem::path& folder, int rank);
  [[nodiscard]] int count();

 private:
  std::string path_;
  std::streamoff read_ = 0;
  int steps_ = 0;
};

// Steps `warmup` + 1 to `last` of all ranks. Throws UsageError that names the file and the line if a log is missing,
// damaged, ends before `last`, or is of another number of ranks.
[[nodiscard]] RunLog read_run(const std::filesystem::path& folder, int ranks, int warmup, int last);

}  // namespace kolo::tools

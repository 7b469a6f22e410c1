#pragma once
// One run of a program: from its start to the moment at which the step logs of all ranks hold enough steps.
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace kolo::tools {

struct JobOptions {
  std::vector<std::string> words;  // the command line
  std::filesystem::path folder;    // for step logs and output.txt; exists
  int ranks = 1;
  bool ranks_wait = true;  // for each other: they reduce gradients
  int warmup = 0;
  int steps = 0;
  std::chrono::milliseconds timeout{};  // for the first step, and for each later one
  std::chrono::milliseconds run_on{};   // after the last step, until the job is ended
  std::function<void(int steps)> progress;
};

// The user has asked the command to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT).
struct Interrupted {
  int signal = 0;
};

// Blocks these signals, so that what was started can be ended first. run_job() reads them.
[[nodiscard]] base::UniqueFd watch_signals();

// Runs until each rank has recorded `steps` steps, then ends the job; or until the program ends by itself. Returns the
// number of steps that all ranks have. Throws UsageError with the last lines of the output if the program cannot be
// started, fails, makes no progress for `timeout`, or records fewer than `warmup` + kBlockSteps steps. Throws
// Interrupted. No process of the job remains.
int run_job(const JobOptions& options);

}  // namespace kolo::tools

#include "scaling_log.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "kolo/error.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

using nlohmann::json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kStepLine = R"({"kind":"step",)";

struct Field {
  const char* name;
  double StepSample::*ms;
};
constexpr std::array<Field, 6> kFields{{{"step_us", &StepSample::step_ms},
                                        {"before_first_gradient_us", &StepSample::before_first_gradient_ms},
                                        {"backward_us", &StepSample::backward_ms},
                                        {"exposed_us", &StepSample::exposed_ms},
                                        {"optimizer_us", &StepSample::optimizer_ms},
                                        {"other_us", &StepSample::other_ms}}};

std::string file_of(const std::filesystem::path& folder, int rank) {
  return file_of_rank(step_log_start(folder), rank, ".jsonl");
}

// A step of one rank. `times` has no wait and no slowest rank.
struct RankStep {
  StepSample times;
  double arrival_us = 0;  // at the first call that waits, by the clock of rank 0
};

RankStep step_of(const json& line) {
  RankStep step;
  for (const Field& field : kFields) step.times.*field.ms = 1e-3 * line.at(field.name).get<double>();
  const json& communication = line.at("communication_us");
  step.times.communication_ms = communication.is_null() ? kUnknown : 1e-3 * communication.get<double>();
  step.times.reduced_bytes = line.at("reduced_bytes").get<double>();
  step.arrival_us = line.at("start_us").get<double>() + line.at("synchronize_us").get<double>();
  return step;
}

// What the log of a rank says; its steps by number.
struct RankLog {
  json head;
  std::vector<RankStep> steps;
};

// A program may create several Contexts in turn: the last one that trained counts.
RankLog read_rank(const std::string& path, int ranks) {
  std::ifstream file(path);
  if (!file) throw UsageError("there is no step log " + path + ". Do all hosts see the folder of --out?");
  RankLog log;
  json head;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (file.eof()) break;  // not complete: the process was ended while it wrote
    try {
      json value = json::parse(line);
      if (value.at("kind") == "step_log") {
        head = std::move(value);
        continue;
      }
      if (value.at("kind") != "step") continue;
      if (head.empty()) throw UsageError("a step comes before the head");
      if (value.at("step") == 1) log = {head, {}};
      log.steps.push_back(step_of(value));
    } catch (const std::exception& error) {
      throw UsageError(path + ":" + std::to_string(number) + ": not a line of a step log: " + error.what() +
                       ". Remove the folder of this run; the same command then repeats it");
    }
  }
  if (!log.head.is_object()) throw UsageError(path + ": the log has no steps");
  if (log.head.at("size") != ranks) {
    throw UsageError(path + ": the log is of a job with " + log.head.at("size").dump() + " ranks, not " +
                     std::to_string(ranks) + ". Does the launcher start the ranks of one job?");
  }
  return log;
}

// 0 if the fact is missing.
int number_in(const json& facts, const char* name) { return number_or_zero(facts.value(name, "0")); }

// `clocks_compared`: arrivals of different ranks have one clock.
StepSample sample_of(const std::vector<RankLog>& ranks, std::size_t index, bool clocks_compared) {
  StepSample sample;
  double latest = 0;
  double sum = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankStep& step = ranks[r].steps[index];
    for (const Field& field : kFields) sample.*field.ms += step.times.*field.ms / static_cast<double>(ranks.size());
    sample.communication_ms += step.times.communication_ms / static_cast<double>(ranks.size());
    sum += step.arrival_us;
    if (r == 0 || step.arrival_us > latest) {
      latest = step.arrival_us;
      sample.slowest_rank = static_cast<int>(r);
    }
  }
  sample.reduced_bytes = ranks.front().steps[index].times.reduced_bytes;
  if (!clocks_compared) {
    sample.slowest_rank = -1;
    sample.slowest_wait_ms = kUnknown;
  } else if (ranks.size() == 1 || sample.reduced_bytes == 0) {
    sample.slowest_rank = -1;
  } else {
    sample.slowest_wait_ms = 1e-3 * (latest - sum / static_cast<double>(ranks.size()));
  }
  return sample;
}

}  // namespace

std::vector<double> step_times(const std::vector<StepSample>& steps) {
  std::vector<double> times;
  for (const StepSample& step : steps) times.push_back(step.step_ms);
  return times;
}

std::string file_of_rank(const std::string& start, int rank, const std::string& end) {
  return start + ".rank" + std::to_string(rank) + end;
}

std::string step_log_start(const std::filesystem::path& folder) { return (folder / "steps").string(); }

StepCounter::StepCounter(const std::filesystem::path& folder, int rank) : path_(file_of(folder, rank)) {}

int StepCounter::count() {
  std::ifstream file(path_);
  file.seekg(read_);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read_ += static_cast<std::streamoff>(line.size()) + 1;
    if (line.starts_with(kStepLine)) {
      ++steps_;
    } else {
      steps_ = 0;  // a head: another Context begins
    }
  }
  return steps_;
}

RunLog read_run(const std::filesystem::path& folder, int ranks, int warmup, int last) {
  std::vector<RankLog> logs;
  RunLog run;
  bool clocks_compared = true;
  for (int rank = 0; rank < ranks; ++rank) {
    logs.push_back(read_rank(file_of(folder, rank), ranks));
    const RankLog& log = logs.back();
    if (static_cast<int>(log.steps.size()) < last) {
      throw UsageError(file_of(folder, rank) + ": the log ends after step " + std::to_string(log.steps.size()) +
                       " of " + std::to_string(last));
    }
    const json facts = log.head.value("facts", json::object());
    const int cores = number_in(facts, "local_cores");
    run.local_cores = rank == 0 ? cores : std::min(run.local_cores, cores);
    run.local_ranks = std::max(run.local_ranks, number_in(facts, "local_ranks"));
    const json& clock_error = log.head.at("clock_error_us");
    if (clock_error.is_null()) clocks_compared = false;
    if (clocks_compared) run.clock_error_ms = std::max(run.clock_error_ms, 1e-3 * clock_error.get<double>());
    run.hosts.push_back(log.head.at("host"));
    if (rank == 0) run.facts = facts.get<std::map<std::string, std::string>>();
    run.facts.erase("KOLO_STEP_LOG");  // not a setting of the user
  }
  for (int step = warmup; step < last; ++step) {
    run.steps.push_back(sample_of(logs, static_cast<std::size_t>(step), clocks_compared));
  }
  return run;
}

}  // namespace kolo::tools

#include "scaling_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/environment.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "kolo/error.h"
#include "run_line.h"
#include "run_reap.h"
#include "scaling_hosts.h"
#include "scaling_job.h"
#include "scaling_log.h"
#include "scaling_report.h"
#include "scaling_text.h"
#include "trace_merge.h"

namespace kolo::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string time_text(double seconds) {
  char text[32];
  if (seconds < 90) {
    std::snprintf(text, sizeof text, "%.0f s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  }
  return text;
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::vector<std::string> words_of(const ScalingOptions& options, const Row& row, const EmulatedHosts& hosts,
                                  const std::map<std::string, std::string>& environment) {
  std::vector<std::string> words{"env"};
  for (const auto& [name, value] : environment) words.push_back(name + "=" + value);
  if (!options.launcher.empty()) {
    constexpr std::string_view kRanks = "{ranks}";
    std::string launcher = options.launcher;
    if (launcher.find(kRanks) == std::string::npos) launcher += " " + std::string(kRanks);
    launcher.replace(launcher.find(kRanks), kRanks.size(), std::to_string(row.ranks));
    append(words, split(launcher, ' '));
    append(words, row.command);
    return words;
  }
  if (row.hosts > 0) append(words, hosts.launcher(row.hosts));
  append(words, {fs::read_symlink("/proc/self/exe").string(), "run", "--quiet", "--no-prefix"});
  if (row.hosts > 0) {
    std::string names;
    for (int host = 0; host < row.hosts; ++host) names += (host == 0 ? "h" : ",h") + std::to_string(host) + ":1";
    append(words, {"--hosts", names});
  } else {
    append(words, {"-n", std::to_string(row.ranks)});
  }
  words.push_back("--");
  append(words, row.command);
  return words;
}

// A line that is rewritten on a terminal, and a line for each run otherwise.
class Progress {
 public:
  Progress() = default;
  ~Progress() {
    if (terminal_ && shown_) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const Row& row, int repetition) {
    ++number_;
    key_ = row.key;
    what_ = full_name(row.name, row.variant) + ", repetition " + std::to_string(repetition);
    start_ = Clock::now();
  }

  void begin_trace(const Row& row) {
    what_ = row.name + ", for the trace";
    if (!terminal_) std::fprintf(stderr, "a further run: %s\n", what_.c_str());
  }

  void step(int steps, int of) {
    if (!terminal_) return;
    constexpr std::size_t kWidth = 20;
    const std::size_t filled = kWidth * (number_ - 1) / keys_.size();
    std::fprintf(stderr, "\r\033[K[%s%s] run %zu of %zu: %s, step %d of %d%s", std::string(filled, '#').c_str(),
                 std::string(kWidth - filled, '.').c_str(), number_, keys_.size(), what_.c_str(), steps, of,
                 left_text().c_str());
    std::fflush(stderr);
    shown_ = true;
  }

  void end(double step_ms) {
    remember(key_, seconds_since(start_));
    if (terminal_) return;
    std::fprintf(stderr, "run %zu of %zu: %s: %.4g ms a step%s\n", number_, keys_.size(), what_.c_str(), step_ms,
                 left_text().c_str());
  }

  void skip() { ++number_; }
  // Seconds that a run of the row takes; 0: not known yet.
  [[nodiscard]] double expected(const std::string& key) const {
    const auto known = seconds_.find(key);
    return known == seconds_.end() ? mean_seconds() : known->second;
  }
  // How long a run of the row took.
  void remember(const std::string& key, double seconds) { seconds_[key] = seconds; }
  void expect(std::vector<std::string> keys) { keys_ = std::move(keys); }

 private:
  [[nodiscard]] double mean_seconds() const {
    double mean = 0;
    for (const auto& [key, seconds] : seconds_) mean += seconds / static_cast<double>(seconds_.size());
    return mean;
  }

  [[nodiscard]] std::string left_text() const {
    if (seconds_.empty()) return "";
    double left = 0;
    for (std::size_t i = number_; i < keys_.size(); ++i) left += expected(keys_[i]);
    return ", " + time_text(left) + " left";
  }

  std::size_t number_ = 0;
  std::string key_;
  std::string what_;
  Clock::time_point start_;
  std::vector<std::string> keys_;  // of all runs, in order
  std::map<std::string, double> seconds_;
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
};

const Row& row_with_most_ranks(const std::vector<Row>& rows) {
  const Row* most = &rows.front();
  for (const Row& row : rows) {
    if (row.variant.empty() && row.ranks >= most->ranks) most = &row;
  }
  return *most;
}

// Everything that must be the same in all runs of a folder. More repetitions and rows may be asked for later.
json plan_of(const ScalingOptions& options, const std::vector<Row>& rows, const Environment& environment) {
  json plan{{"steps", options.steps}, {"warmup", options.warmup}, {"launcher", options.launcher}};
  plan["environment"] = environment;
  plan["variables"] = base::get_environment_with_prefix("KOLO_");
  for (const Row& row : rows) plan["rows"][row.key] = row.command;
  return plan;
}

// What differs between two plans, apart from rows that only one of them has.
std::vector<std::string> differences(const json& there, const json& plan) {
  std::vector<std::string> names;
  for (const auto& [name, value] : plan.items()) {
    const json old = there.is_object() ? there.value(name, json()) : json();
    if (name != "rows") {
      if (old != value) names.push_back(name);
      continue;
    }
    for (const auto& [key, command] : value.items()) {
      if (old.is_object() && old.contains(key) && old.at(key) != command) names.push_back("command of " + key);
    }
  }
  return names;
}

// Bytes that are not UTF-8, in arguments or paths, are replaced.
template <class Json>
std::string text_of(const Json& value) {
  return value.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool has_complete_run(const fs::path& out) {
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(out / "runs", none)) {
    if (entry.path().filename() == "done.json") return true;
  }
  return false;
}

// Creates OUT, or checks that its runs are of this plan. The lock is held as long as the result lives.
base::UniqueFd open_folder(const ScalingOptions& options, const json& plan) {
  const fs::path path = fs::path(options.out) / "plan.json";
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) {
    throw UsageError("cannot create " + options.out + ": " + error.message() + ". Choose another folder with --out");
  }
  base::UniqueFd lock(::open(options.out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw UsageError("another `kolo scaling` writes to " + options.out + ". Choose another folder with --out");
  }
  if (!fs::exists(path) && !fs::is_empty(options.out)) {
    throw UsageError(options.out + " is not empty. Choose another folder with --out");
  }
  std::ifstream file(path);
  const json there = json::parse(file, nullptr, false);
  const json comparable = json::parse(text_of(plan));
  if (!has_complete_run(options.out)) {
    write_file(path, text_of(comparable));
    return lock;
  }
  const std::vector<std::string> names = differences(there, comparable);
  if (!names.empty()) {
    throw UsageError(options.out + " holds runs that differ in: " + base::join(names, ", ") +
                     ". Choose another folder with --out");
  }
  json merged = comparable;
  merged.at("rows").update(there.value("rows", json::object()));
  write_file(path, text_of(merged));
  return lock;
}

class RowRunner {
 public:
  RowRunner(const ScalingOptions& options, const std::vector<Row>& rows, const Environment& environment)
      : options_(options), rows_(rows), environment_(environment), hosts_(options.hosts) {
    for (const Row& row : rows) results_.push_back({row, {}});
    if (!options.hosts.empty()) hosts_.check();
  }

  nlohmann::ordered_json run() {
    std::vector<std::pair<std::size_t, int>> order;
    // Every other repetition runs backwards: no row is always the first, or always behind the same row.
    for (int repetition = 1; repetition <= options_.repeat; ++repetition) {
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        order.emplace_back(repetition % 2 == 1 ? i : rows_.size() - 1 - i, repetition);
      }
    }
    std::vector<std::string> keys;
    for (const auto& [index, repetition] : order) keys.push_back(rows_[index].key);
    progress_.expect(std::move(keys));
    for (const auto& [index, repetition] : order) run(index, repetition);
    if (left_out_ > 0) {
      std::fprintf(stderr, "the time budget leaves out %zu of %zu runs; the same command continues\n", left_out_,
                   order.size());
    } else if (!ran_) {
      std::fprintf(stderr, "all runs are complete in %s; nothing was run\n", options_.out.c_str());
    }
    return write_results();
  }

  // A short run of kolo with the most ranks.
  void trace() {
    const fs::path out = fs::path(options_.out) / "trace";
    if (fs::exists(out / "trace.json.gz") || left_out_ > 0) return;
    fs::remove_all(out);  // of a merge that was ended
    const fs::path folder = fs::absolute(fs::path(options_.out) / "runs" / "trace");
    Row row = row_with_most_ranks(rows_);
    progress_.begin_trace(row);
    row.environment["KOLO_TIMELINE"] = (folder / "timeline").string();
    // The writer of a timeline is behind the step log.
    start_job(row, folder, options_.warmup + static_cast<int>(kBlockSteps), std::chrono::seconds(1));
    MergeOptions merge;
    for (int rank = 0; rank < row.ranks; ++rank) {
      merge.files.push_back(file_of_rank(row.environment["KOLO_TIMELINE"], rank, ".json"));
    }
    merge.out = out.string();
    merge.partial = true;  // the job was ended, and the last line of a file may be cut off
    static_cast<void>(merge_traces(merge));
  }

 private:
  void run(std::size_t index, int repetition) {
    const Row& row = rows_[index];
    const fs::path folder = fs::absolute(fs::path(options_.out) / "runs" / row.key / std::to_string(repetition));
    if (const auto steps = steps_of_done(folder, row)) {
      results_[index].runs.push_back(read_run(folder, row.ranks, options_.warmup, *steps));
      progress_.skip();
      return;
    }
    if (failed_peers_.contains(row.peer)) {
      progress_.skip();
      return;
    }
    // At least one run, so that a repeated command ends.
    if (ran_ && options_.budget.count() > 0 && seconds_since(begin_) + progress_.expected(row.key) > budget_seconds()) {
      ++left_out_;
      progress_.skip();
      return;
    }
    progress_.begin(row, repetition);
    ran_ = true;
    const auto start = Clock::now();
    int steps = 0;
    try {
      steps = start_job(row, folder, options_.steps);
    } catch (const UsageError& error) {
      if (row.peer.empty()) throw;
      std::fprintf(stderr, "kolo scaling: peer %s is left out: %s\n", row.peer.c_str(), error.what());
      failed_peers_[row.peer] = first_line(error.what());
      return;
    }
    results_[index].runs.push_back(read_run(folder, row.ranks, options_.warmup, steps));
    write_file(folder / "done.json", json{{"steps", steps}, {"seconds", seconds_since(start)}}.dump() + "\n");
    progress_.end(median(step_times(results_[index].runs.back().steps)));
    write_results();
  }

  [[nodiscard]] double budget_seconds() const { return std::chrono::duration<double>(options_.budget).count(); }

  nlohmann::ordered_json write_results() const {
    auto results = results_of(options_, results_, environment_);
    for (const auto& [peer, why] : failed_peers_) results["missing_peers"][peer] = why;
    for (const RowRuns& row : results_) {
      const bool left_out = failed_peers_.contains(row.row.peer);
      if (row.runs.empty() && !left_out) results["missing_rows"].push_back(full_name(row.row.name, row.row.variant));
    }
    const std::string text = text_of(results);
    write_file(fs::path(options_.out) / "results.json", text);
    results = nlohmann::ordered_json::parse(text);
    write_file(fs::path(options_.out) / "index.html", report_page(results));
    return results;
  }

  std::optional<int> steps_of_done(const fs::path& folder, const Row& row) {
    std::ifstream file(folder / "done.json");
    const json done = json::parse(file, nullptr, false);
    if (!done.is_object() || !done.contains("steps") || !done.at("steps").is_number_integer()) return std::nullopt;
    if (done.contains("seconds") && done.at("seconds").is_number()) progress_.remember(row.key, done.at("seconds"));
    const int steps = done.at("steps");
    return steps >= options_.warmup + static_cast<int>(kBlockSteps) ? std::optional(steps) : std::nullopt;
  }

  int start_job(const Row& row, const fs::path& folder, int steps, std::chrono::milliseconds run_on = {}) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    if (row.hosts > 0) hosts_.set_rate(row.hosts, row.rate);
    auto environment = row.environment;
    environment["KOLO_STEP_LOG"] = step_log_start(folder);
    JobOptions job;
    job.words = words_of(options_, row, hosts_, environment);
    job.folder = folder;
    job.ranks = row.ranks;
    job.ranks_wait = row.variant != kSyncOff;
    job.warmup = options_.warmup;
    job.steps = steps;
    job.timeout = options_.timeout;
    job.run_on = run_on;
    job.progress = [this, steps](int done) { progress_.step(done, steps); };
    try {
      return run_job(job);
    } catch (const UsageError& error) {
      throw UsageError(full_name(row.name, row.variant) + ": " + error.what());
    }
  }

  const ScalingOptions& options_;
  const std::vector<Row>& rows_;
  const Environment& environment_;
  EmulatedHosts hosts_;
  Progress progress_;
  std::vector<RowRuns> results_;
  const Clock::time_point begin_ = Clock::now();
  bool ran_ = false;                                 // something
  std::size_t left_out_ = 0;                         // runs, because of the budget
  std::map<std::string, std::string> failed_peers_;  // and why
};

}  // namespace

void run_rows(const ScalingOptions& options, const std::vector<Row>& rows, const Environment& environment,
              const std::function<void(const nlohmann::ordered_json& results)>& show) {
  const base::UniqueFd signals = watch_signals();  // before hosts are created, which an end by a signal would leave
  const base::UniqueFd lock = open_folder(options, plan_of(options, rows, environment));
  RowRunner runner(options, rows, environment);
  show(runner.run());
  runner.trace();
}

std::string describe_rows(const ScalingOptions& options, const std::vector<Row>& rows) {
  const base::UniqueFd signals = watch_signals();
  constexpr int kSteps = 10;
  const Scratch scratch;
  const EmulatedHosts hosts(options.hosts);
  JobOptions job;
  job.words = words_of(options, rows.front(), hosts, {{"KOLO_STEP_LOG", step_log_start(scratch.path())}});
  job.folder = scratch.path();
  job.steps = kSteps;
  job.timeout = options.timeout;
  const auto start = Clock::now();
  run_job(job);
  const double all = seconds_since(start);
  const RunLog log = read_run(scratch.path(), 1, 0, kSteps);
  const std::vector<double> times = step_times(log.steps);
  const double starting = all - 1e-3 * std::accumulate(times.begin(), times.end(), 0.0);
  std::string text;
  double sum = 0;
  for (const Row& row : rows) {
    const double crowd = log.local_cores > 0 ? std::max(1.0, static_cast<double>(row.ranks) / log.local_cores) : 1.0;
    const double seconds = starting + crowd * options.steps * 1e-3 * median(times);
    sum += seconds * (options.repeat + (&row == &row_with_most_ranks(rows) ? 1 : 0));  // and for the trace
    text += full_name(row.name, row.variant) + ": " + std::to_string(options.repeat) + " x " + time_text(seconds) +
            "\n    " + shell_words(words_of(options, row, hosts, row.environment)) + "\n";
  }
  return text + "about " + time_text(sum) + " in all, by a run of " + std::to_string(kSteps) +
         " steps with one rank; a slow network adds to it\n";
}

}  // namespace kolo::tools

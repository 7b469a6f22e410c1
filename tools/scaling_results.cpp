#include "scaling_results.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "base/strings.h"
#include "kolo/error.h"
#include "scaling_advice.h"
#include "scaling_rows.h"
#include "scaling_text.h"

namespace kolo::tools {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;  // of results.json
constexpr int kNameWidth = 34;

struct Part {
  const char* name;
  double StepSample::*ms;
};
constexpr std::array<Part, 7> kParts{{{"before_first_gradient_ms", &StepSample::before_first_gradient_ms},
                                      {"backward_ms", &StepSample::backward_ms},
                                      {"exposed_ms", &StepSample::exposed_ms},
                                      {"optimizer_ms", &StepSample::optimizer_ms},
                                      {"other_ms", &StepSample::other_ms},
                                      {"communication_ms", &StepSample::communication_ms},
                                      {"slowest_wait_ms", &StepSample::slowest_wait_ms}}};

std::vector<StepSample> steps_of(const RowRuns& row) {
  std::vector<StepSample> steps;
  for (const RunLog& run : row.runs) steps.insert(steps.end(), run.steps.begin(), run.steps.end());
  return steps;
}

std::vector<Block> all_blocks(const RowRuns& row) {
  std::vector<Block> blocks;
  for (const RunLog& run : row.runs) {
    for (Block& block : blocks_of(step_times(run.steps))) blocks.push_back(std::move(block));
  }
  return blocks;
}

// Steps between the quartiles of their times: the parts of these add up to about the median.
std::vector<StepSample> ordinary_steps(const std::vector<StepSample>& steps) {
  const std::vector<double> times = step_times(steps);
  const double low = quantile(times, 0.25);
  const double high = quantile(times, 0.75);
  std::vector<StepSample> ordinary;
  std::ranges::copy_if(steps, std::back_inserter(ordinary),
                       [&](const StepSample& step) { return step.step_ms >= low && step.step_ms <= high; });
  return ordinary;
}

// The rank that most often is the last, and in which share of the steps. REQUIRES: steps.
std::pair<int, double> slowest_rank(const std::vector<StepSample>& steps) {
  std::map<int, int> counts;
  for (const StepSample& step : steps) ++counts[step.slowest_rank];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return {most->first, static_cast<double>(most->second) / static_cast<double>(steps.size())};
}

const RowRuns* find(const std::vector<RowRuns>& rows, const std::string& variant, int ranks, const RowRuns& like) {
  const auto found = std::ranges::find_if(rows, [&](const RowRuns& each) {
    return each.row.variant == variant && each.row.ranks == ranks && !each.runs.empty() &&
           (ranks == 1 || (each.row.hosts == like.row.hosts && each.row.rate == like.row.rate));
  });
  return found == rows.end() ? nullptr : &*found;
}

// Items of all ranks for each second, by the mean step; 0: not known.
double items_per_s(const ScalingOptions& options, const Row& row, const std::vector<StepSample>& steps) {
  const double items = options.global_batch != 0 ? options.global_batch : options.items_per_step * row.ranks;
  double ms = 0;
  for (const StepSample& step : steps) ms += step.step_ms;
  return items * static_cast<double>(steps.size()) / ms * 1000;
}

// `one`: the row with one rank of the same program, or null. `kolo`: the row of kolo with the same ranks, or null.
// `expected`: steps of a run that count.
std::vector<std::string> warnings_of(const RowRuns& row, const RowRuns* one, const RowRuns* kolo, int expected) {
  std::vector<std::string> warnings;
  for (const RunLog& each : row.runs) {
    const auto steps = static_cast<int>(each.steps.size());
    if (steps >= expected || !warnings.empty()) continue;
    warnings.push_back("the program ended by itself: " + std::to_string(steps) + " of " + std::to_string(expected) +
                       " steps of a run count");
  }
  const RunLog& run = row.runs.front();
  if (run.local_ranks > run.local_cores && run.local_cores > 0) {
    warnings.push_back(std::to_string(run.local_ranks) + " ranks share " + std::to_string(run.local_cores) +
                       " cores of a host: their step times say nothing about more hosts");
  }
  if (one != nullptr && row.row.hosts > one->runs.front().local_cores && one->runs.front().local_cores > 0) {
    warnings.push_back(std::to_string(row.row.hosts) + " emulated hosts share " +
                       std::to_string(one->runs.front().local_cores) + " cores: real hosts do not");
  }
  const auto threads = [](const RowRuns& of) {
    const auto& facts = of.runs.front().facts;
    const auto found = facts.find("threads");
    return found == facts.end() ? std::string() : found->second;
  };
  const auto optimizers = run.facts.find("optimizers");
  if (optimizers != run.facts.end() && optimizers->second != "1") {
    warnings.push_back("the program has " + optimizers->second + " optimizers: a step is one step() of any of them");
  }
  if (one != nullptr && threads(*one) != threads(row)) {
    warnings.push_back("threads of a rank: " + threads(row) + ", and " + threads(*one) +
                       " in the row with one rank. Set OMP_NUM_THREADS, or the program's option");
  }
  if (!row.row.peer.empty() && kolo != nullptr && threads(*kolo) != threads(row)) {
    warnings.push_back("threads of a rank: " + threads(row) + ", and " + threads(*kolo) +
                       " of kolo. Set the program's option --threads");
  }
  return warnings;
}

ordered_json row_of(const ScalingOptions& options, const std::vector<RowRuns>& rows, const RowRuns& row) {
  const std::vector<StepSample> steps = steps_of(row);
  const std::vector<Block> blocks = all_blocks(row);
  const Interval step = median_interval(blocks);
  ordered_json json{{"key", row.row.key},
                    {"name", row.row.name},
                    {"variant", row.row.variant},
                    {"ranks", row.row.ranks},
                    {"hosts", row.row.hosts},
                    {"rate", row.row.rate},
                    {"command", row.row.command},
                    {"environment", row.row.environment},
                    {"facts", row.runs.front().facts},
                    {"steps", steps.size()},
                    {"step_ms", json_of(step)},
                    {"step_ms_p95", quantile(step_times(steps), 0.95)}};
  if (!row.row.peer.empty()) json["peer"] = row.row.peer;
  const std::vector<StepSample> ordinary = ordinary_steps(steps);
  for (const Part& part : kParts) {
    double sum = 0;
    for (const StepSample& each : ordinary) sum += each.*part.ms;
    if (!std::isnan(sum)) json["parts"][part.name] = sum / static_cast<double>(ordinary.size());
  }
  const auto [rank, share] = slowest_rank(steps);
  if (rank >= 0) json["slowest_rank"] = {{"rank", rank}, {"share_of_steps", share}};
  json["reduced_bytes"] = static_cast<std::uint64_t>(steps.back().reduced_bytes);
  if (const double items = items_per_s(options, row.row, steps); items > 0) json["items_per_s"] = items;
  const RowRuns* const one = find(rows, row.row.peer.empty() ? "" : row.row.variant, 1, row);
  if (one != nullptr && row.row.ranks > 1 && row.row.variant != kSyncOff) {
    Interval efficiency = ratio_interval(all_blocks(*one), blocks);
    const double fewer_items = options.global_batch != 0 ? row.row.ranks : 1;  // strong scaling: of a rank's step
    json["efficiency_to_one_rank"] =
        json_of({efficiency.value / fewer_items, efficiency.low / fewer_items, efficiency.high / fewer_items});
  }
  const RowRuns* const alone = row.row.ranks == 1 ? nullptr : find(rows, kSyncOff, row.row.ranks, row);
  if (alone != nullptr && row.row.variant != kSyncOff) {
    json["efficiency_to_sync_off"] = json_of(ratio_interval(all_blocks(*alone), blocks));
  }
  const RowRuns* const plain = find(rows, "", row.row.ranks, row);
  if (plain != nullptr && plain != &row) json["step_to_default"] = json_of(ratio_interval(blocks, all_blocks(*plain)));
  json["warnings"] = warnings_of(row, one, plain, options.steps - options.warmup);
  const double clock_error = row.runs.front().clock_error_ms;
  if (rank >= 0 && clock_error > json["parts"]["slowest_wait_ms"]) {
    json["warnings"].push_back("(slowest) is less than the error of the clocks, " + printed("%.2g", clock_error) +
                               " ms");
  }
  for (const RunLog& run : row.runs) json["runs"].push_back(step_times(run.steps));
  return json;
}

std::string step_line(const ordered_json& row) {
  std::string line = padded(interval_text(row.at("step_ms"), "%.4g"), 24);
  line += padded(printed("%.4g", row.at("step_ms_p95")), 8);
  line += padded(row.contains("items_per_s") ? printed("%.4g", row.at("items_per_s")) : "", 9);
  for (const char* ratio : {"efficiency_to_one_rank", "efficiency_to_sync_off", "step_to_default"}) {
    line += padded(row.contains(ratio) ? interval_text(row.at(ratio), "%.3f") : "", 21);
  }
  return line;
}

std::string parts_line(const ordered_json& row) {
  std::string line;
  const ordered_json& parts = row.at("parts");
  for (const Part& part : kParts) {
    line += padded(parts.contains(part.name) ? printed("%.3g", parts.at(part.name)) : "", 10);
  }
  return line;
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Throws if the comparison or the table could not use the row.
void check_row(const ordered_json& row) {
  for (const char* name : {"key", "name", "variant"}) static_cast<void>(row.at(name).get<std::string>());
  static_cast<void>(row.at("step_ms").at("value").get<double>());
  if (row.at("runs").empty()) throw UsageError("a row has no runs");
  for (const auto& run : row.at("runs")) {
    if (run.get<std::vector<double>>().size() < kBlockSteps) throw UsageError("a run has too few steps");
  }
}

}  // namespace

Environment describe_machine() {
  Environment environment;
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    if (!line.starts_with("model name")) continue;
    environment["cpu"] = line.substr(std::min(line.find(':') + 2, line.size()));
    break;
  }
  utsname system{};
  if (::uname(&system) == 0) environment["kernel"] = std::string(system.sysname) + " " + system.release;
  const std::string ports = active_infiniband("/sys/class/infiniband");
  if (!ports.empty()) environment["infiniband"] = ports;
  return environment;
}

std::string active_infiniband(const std::filesystem::path& folder) {
  std::set<std::string> ports;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(folder, error)) {
    std::error_code none;
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none)) {
      if (!first_line(port.path() / "state").ends_with(": ACTIVE")) continue;  // "4: ACTIVE"
      ports.insert(device.path().filename().string() + " port " + port.path().filename().string() + ": " +
                   first_line(port.path() / "rate"));
    }
  }
  return base::join(ports, ", ");
}

ordered_json results_of(const ScalingOptions& options, const std::vector<RowRuns>& rows,
                        const Environment& environment) {
  ordered_json results{{"kind", "kolo_scaling"},       {"format", kFormat},
                       {"command", options.command},   {"scaling", options.global_batch != 0 ? "strong" : "weak"},
                       {"steps", options.steps},       {"warmup", options.warmup},
                       {"repeat", options.repeat},     {"environment", environment},
                       {"rows", ordered_json::array()}};
  for (const RowRuns& row : rows) {
    if (row.runs.empty()) continue;
    if (results["rows"].empty()) {
      for (const auto& [name, value] : row.runs.front().facts) {
        if (!name.starts_with("local_")) results["environment"][name] = value;
      }
    }
    results["rows"].push_back(row_of(options, rows, row));
  }
  for (const Peer& peer : options.peers) {
    if (!peer.missing.empty()) results["missing_peers"][peer.name] = peer.missing;
  }
  results["advice"] = advice(results);
  return results;
}

std::string table_of(const ordered_json& results) {
  std::vector<std::string> notes;
  std::string text = padded("", -kNameWidth) + padded("step ms [95 %]", 24) + padded("p95", 8) + padded("items/s", 9) +
                     padded("eff. to 1 rank", 21) + padded("to sync off", 21) + padded("step / default", 21) + "\n";
  for (const auto& row : results.at("rows"))
    text += padded(name_of(row) + note_numbers(row, notes), -kNameWidth) + step_line(row) + "\n";
  text += "\n" + padded("parts of a step, ms", -kNameWidth);
  for (const char* part : {"before", "backward", "exposed", "optimizer", "other", "(comm.)", "(slowest)"}) {
    text += padded(part, 10);
  }
  text += "\n";
  for (const auto& row : results.at("rows")) text += padded(name_of(row), -kNameWidth) + parts_line(row) + "\n";
  for (const std::string& note : numbered(notes)) text += note + "\n";
  const auto missing = results.value("missing_peers", std::map<std::string, std::string>());
  for (const auto& [peer, why] : missing) text += "peer " + peer + " is missing: " + why + "\n";
  text += "\n";
  for (const auto& sentences : results.at("advice")) text += "* " + sentences.get<std::string>() + "\n";
  return text;
}

ordered_json read_results(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "results.json";
  std::ifstream file(path);
  if (!file) throw UsageError("cannot open " + path.string() + ". Pass the --out folder of `kolo scaling`");
  try {
    ordered_json results = ordered_json::parse(file);
    if (results.at("kind") != "kolo_scaling" || results.at("format") != kFormat) {
      throw UsageError("not results of this version of `kolo scaling`");
    }
    static_cast<void>(results.at("environment").get<Environment>());
    static_cast<void>(results.at("command").get<std::vector<std::string>>());
    for (const auto& row : results.at("rows")) check_row(row);
    return results;
  } catch (const std::exception& error) {
    throw UsageError(path.string() + ": " + error.what());
  }
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error) {
    std::error_code none;
    std::filesystem::remove(temporary, none);
    throw UsageError("cannot write " + path.string() + (error ? ": " + error.message() : ". Is the disk full?"));
  }
}

}  // namespace kolo::tools

#include "run_line.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <set>
#include <stdexcept>

#include "base/cores.h"

namespace kolo::tools {
namespace {

// Where kolo's own connections between hosts go, which are not MPI's.
constexpr const char* kInterface = "KOLO_INTERFACE";

int positive_number(std::string_view text, const std::string& whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
    throw std::invalid_argument("'" + whole + "': '" + std::string(text) + "' is not a number of ranks");
  }
  return value;
}

int slots(const std::vector<Host>& hosts) {
  int sum = 0;
  for (const Host& host : hosts) sum += host.slots;
  return sum;
}

// 0: not said, which leaves it to the program.
int threads_of_a_rank(const RunOptions& options, const Surroundings& surroundings) {
  std::string text;
  if (const auto found = surroundings.environment.find("OMP_NUM_THREADS"); found != surroundings.environment.end()) {
    text = found->second;
  }
  for (const std::string& given : options.environment) {
    if (given.starts_with("OMP_NUM_THREADS=")) text = given.substr(given.find('=') + 1);
  }
  return base::parse_omp_num_threads(text).value_or(0);
}

bool several_hosts(const RunOptions& options) { return !options.hosts.empty() || !options.hostfile.empty(); }

void add(std::vector<std::string>& line, std::initializer_list<std::string> words) { line.insert(line.end(), words); }

void add_network(std::vector<std::string>& line, const RunOptions& options, const Surroundings& surroundings) {
  if (!options.agent.empty()) add(line, {"--mca", "plm", "rsh", "--mca", "plm_rsh_agent", options.agent});
  if (surroundings.emulated) {
    // Other ways from rank to rank would find out that the hosts are one.
    add(line, {"--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self"});
  }
  if (!options.interface.empty()) {
    add(line, {"--mca", "btl_tcp_if_include", options.interface, "--mca", "oob_tcp_if_include", options.interface});
  }
}

void add_places(std::vector<std::string>& line, const RunOptions& options, const Surroundings& surroundings) {
  add(line, {"-np", std::to_string(options.ranks)});
  if (!options.hosts.empty()) add(line, {"--host", options.hosts});
  if (!options.hostfile.empty()) add(line, {"--hostfile", options.hostfile});
  const int room = options.hosts.empty() ? surroundings.cores : slots(parse_hosts(options.hosts));
  if (options.hostfile.empty() && options.ranks > room) line.emplace_back("--oversubscribe");
  const Binding binding = choose_binding(options, surroundings);
  if (binding.cores_per_rank == 0 || binding.by_shim) {
    add(line, {"--map-by", "slot", "--bind-to", "none"});
    if (binding.by_shim) add(line, {"-x", kCoresVariable + ("=" + std::to_string(binding.cores_per_rank))});
  } else {
    add(line, {"--map-by", "slot:PE=" + std::to_string(binding.cores_per_rank), "--bind-to", "core"});
  }
}

bool is_escaped_colon(std::string_view word) {
  return word.ends_with(':') && word.find_first_not_of('\\') == word.size() - 1;
}

}  // namespace

std::string escape_colon(const std::string& word) { return is_escaped_colon(word) ? '\\' + word : word; }

std::string unescape_colon(const std::string& word) {
  return word.size() > 1 && is_escaped_colon(word) ? word.substr(1) : word;
}

std::chrono::milliseconds parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  static const std::map<std::string, double> units{{"", 1e3},   {"ms", 1},     {"s", 1e3},
                                                   {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}};
  const auto found = units.find(unit);
  if (error != std::errc{} || found == units.end() || !(value > 0) || value * found->second > 1e12) {
    throw std::invalid_argument("'" + text + "' is not a time such as 90, 500ms, 90s, 10m, 2h");
  }
  return std::chrono::milliseconds(std::max<std::int64_t>(1, static_cast<std::int64_t>(value * found->second)));
}

std::vector<Host> parse_hosts(const std::string& text) {
  std::vector<Host> hosts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view item = std::string_view(text).substr(begin, comma - begin);
    const std::size_t colon = item.find(':');
    if (item.empty() || colon == 0)
      throw std::invalid_argument("'" + text + "' is not a list of hosts such as h0:2,h1:2");
    const int count = colon == std::string_view::npos ? 1 : positive_number(item.substr(colon + 1), text);
    hosts.push_back({std::string(item.substr(0, colon)), count});
    begin = comma + 1;
  }
  return hosts;
}

std::vector<Host> spread(int ranks, const std::vector<std::string>& names) {
  std::vector<Host> hosts;
  const int count = static_cast<int>(names.size());
  for (int k = 0; k < count; ++k) {
    const int share = ranks / count + (k < ranks % count ? 1 : 0);
    if (share > 0) hosts.push_back({names[static_cast<std::size_t>(k)], share});
  }
  return hosts;
}

RunOptions completed(RunOptions options, const Surroundings& surroundings) {
  if (!options.hosts.empty() && !options.hostfile.empty()) {
    throw std::invalid_argument("--hosts and --hostfile exclude each other");
  }
  if (surroundings.emulated) {
    if (options.agent.empty()) options.agent = surroundings.emulated_agent;
    if (options.interface.empty()) options.interface = surroundings.hub_network;
    if (!several_hosts(options) && !surroundings.emulated_hosts.empty()) {
      const int ranks = options.ranks > 0 ? options.ranks : static_cast<int>(surroundings.emulated_hosts.size());
      for (const Host& host : spread(ranks, surroundings.emulated_hosts)) {
        options.hosts += (options.hosts.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
      }
    }
  }
  if (options.ranks == 0 && !options.hosts.empty()) options.ranks = slots(parse_hosts(options.hosts));
  if (options.ranks < 1)
    throw std::invalid_argument("the number of ranks is missing; pass -n N, or --hosts with slots");
  if (!options.hosts.empty()) static_cast<void>(parse_hosts(options.hosts));  // throws
  const auto names = forwarded_names(options, surroundings);
  if (!options.interface.empty() && std::find(names.begin(), names.end(), kInterface) == names.end()) {
    options.environment.push_back(kInterface + ("=" + options.interface));
  }
  return options;
}

Binding choose_binding(const RunOptions& options, const Surroundings& surroundings) {
  if (options.bind == "none") return {0, false, "asked for"};
  const int share = std::max(1, surroundings.cores / std::max(1, options.ranks));
  const int threads = threads_of_a_rank(options, surroundings);
  if (options.bind == "core" && several_hosts(options)) return {std::max(1, threads), false, "asked for"};
  if (options.bind == "core") return {share, !surroundings.all_cpus, "asked for"};
  if (surroundings.emulated) return {0, false, "emulated hosts share their processors"};
  if (several_hosts(options)) return {0, false, "the cores of other hosts are not known here"};
  if (options.ranks > surroundings.cores) return {0, false, "more ranks than cores"};
  if (threads > share) {
    return {0, false, "ranks with " + std::to_string(threads) + " threads need more cores than there are"};
  }
  return {share, !surroundings.all_cpus, "each rank its share of the cores"};
}

std::vector<std::string> rank_variables(const Surroundings& surroundings) {
  const auto& set = surroundings.environment;
  const bool of_mpirun = set.contains("OMPI_COMM_WORLD_RANK") || set.contains("OMPI_UNIVERSE_SIZE");
  // Slurm's interactive steps may have the variables of PMIx.
  const bool of_another = !set.contains("SLURM_JOB_ID") && (set.contains("PMIX_RANK") || set.contains("PMI_RANK"));
  if (!of_mpirun && !of_another) return {};
  std::vector<std::string> names;
  for (const auto& [name, value] : set) {
    if (name.starts_with("PMIX_MCA_")) continue;  // a parameter, which the user may have set
    for (const char* start : {"OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_UNIVERSE_SIZE", "PMIX_", "PMI_"}) {
      if (name.starts_with(start)) names.push_back(name);
    }
  }
  return names;
}

int columns_of_a_rank(const RunOptions& options, const Surroundings& surroundings) {
  if (surroundings.columns == 0) return 0;
  for (const std::string& given : options.environment) {
    int columns = 0;
    if (std::sscanf(given.c_str(), "COLUMNS=%d", &columns) == 1 && columns > 0) return columns;
  }
  const std::size_t prefix = options.no_prefix ? 0 : std::to_string(options.ranks - 1).size() + 3;  // "[7] "
  return std::max(1, surroundings.columns - static_cast<int>(prefix));
}

std::vector<std::string> forwarded_names(const RunOptions& options, const Surroundings& surroundings) {
  std::set<std::string> names;
  for (const auto& [name, value] : surroundings.environment) {
    const bool of_a_job_around_this = name.starts_with("KOLO_RUN_");
    if ((name.starts_with("KOLO_") && !of_a_job_around_this) || name == "OMP_NUM_THREADS") names.insert(name);
  }
  if (surroundings.columns > 0 && surroundings.environment.contains("TERM")) names.insert("TERM");
  for (const std::string& given : options.environment) names.insert(given.substr(0, given.find('=')));
  return {names.begin(), names.end()};
}

std::vector<std::string> mpirun_line(const RunOptions& options, const Surroundings& surroundings) {
  std::vector<std::string> line{options.mpirun};
  if (surroundings.root) line.emplace_back("--allow-run-as-root");
  // Which failure ends the job, and how long the others have, is decided by `kolo run`, not by mpirun.
  line.emplace_back("--enable-recovery");
  add_places(line, options, surroundings);
  add_network(line, options, surroundings);
  if (!several_hosts(options) || surroundings.emulated) {
    // All that the launcher writes is then in a folder that can be taken away as a whole.
    add(line, {"--mca", "orte_tmpdir_base", surroundings.scratch});
  }
  // The supervisor needs longer than the usual second to end what its rank has started.
  add(line, {"--mca", "odls_base_sigkill_timeout", "3"});
  for (const auto& [key, value] : options.mca) add(line, {"--mca", key, value});
  for (const std::string& name : forwarded_names(options, surroundings)) add(line, {"-x", name});
  for (const char* name : {"KOLO_RUN_ADDRESS", "KOLO_RUN_JOB", "KOLO_RUN_TOKEN"}) add(line, {"-x", name});
  add(line, {"-x", kColumnsVariable + ("=" + std::to_string(columns_of_a_rank(options, surroundings)))});
  add(line, {surroundings.program, "rank-shim", "--"});
  if (std::ranges::find(line, ":") != line.end()) {
    throw std::invalid_argument("an option has the value ':', which ends the options of mpirun; pass another value");
  }
  std::ranges::transform(options.command, std::back_inserter(line), escape_colon);
  return line;
}

std::string shell_words(const std::vector<std::string>& words) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char character : word) {
      if (character == '\'') {
        text += "'\\''";
      } else {
        text += character;
      }
    }
    text += '\'';
  }
  return text;
}

}  // namespace kolo::tools

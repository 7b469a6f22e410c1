#include "runtime/config_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/environment.h"
#include "base/strings.h"
#include "kolo/error.h"
#include "runtime/config_values.h"
#include "telemetry/logger.h"

namespace kolo::runtime {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kGiB = std::size_t{1} << 30;

template <class T>
bool assign_within(T& field, const std::optional<T>& value, T least, T most) {
  if (!value || *value < least || *value > most) return false;
  field = *value;
  return true;
}

template <std::size_t Config::*field, std::size_t least, std::size_t most>
bool parse_size(std::string_view text, Config& config) {
  return assign_within(config.*field, parse_bytes(text), least, most);
}

template <std::size_t Config::*field>
std::string print_size(const Config& config) {
  return print_bytes(config.*field);
}

// A bucket's size, or auto.
bool parse_bucket(std::string_view text, Config& config) {
  if (text != "auto") return parse_size<&Config::bucket_bytes, kKiB, 4 * kGiB>(text, config);
  config.bucket_bytes = 0;
  return true;
}

std::string print_bucket(const Config& config) {
  return config.bucket_bytes == 0 ? "auto" : print_bytes(config.bucket_bytes);
}

template <std::chrono::milliseconds Config::*field, long long least_ms>
bool parse_time(std::string_view text, Config& config) {
  using std::chrono::milliseconds;
  constexpr milliseconds most = std::chrono::hours(24 * 7);
  return assign_within(config.*field, parse_duration(text), milliseconds(least_ms), most);
}

bool parse_silence(std::string_view text, Config& config) {
  if (!parse_time<&Config::monitor_timeout, 0>(text, config)) return false;
  return config.monitor_timeout.count() == 0 || config.monitor_timeout.count() >= 100;
}

template <std::chrono::milliseconds Config::*field>
std::string print_time(const Config& config) {
  return print_duration(config.*field);
}

template <int Config::*field, long long least, long long most>
bool parse_int(std::string_view text, Config& config) {
  long long value = 0;
  if (!assign_within(value, parse_integer(text), least, most)) return false;
  config.*field = static_cast<int>(value);
  return true;
}

template <int Config::*field>
std::string print_int(const Config& config) {
  return std::to_string(config.*field);
}

constexpr std::string_view kChosen = "auto";

template <std::string Config::*field>
bool parse_word(std::string_view text, Config& config) {
  if (text.empty() || text.find_first_of(" \t\n") != std::string_view::npos) return false;
  config.*field = text == kChosen ? std::string_view() : text;
  return true;
}

template <std::string Config::*field>
std::string print_word(const Config& config) {
  return (config.*field).empty() ? std::string(kChosen) : config.*field;
}

// Enumerators by their name; the array is in the order of the enum.
constexpr std::array<std::string_view, 3> kCoordinatorModes{"auto", "always", "never"};
constexpr std::array<std::string_view, 3> kNetworks{"auto", "tcp", "mpi"};
constexpr std::array<std::string_view, 2> kStreamPriorities{"high", "normal"};
constexpr std::array<std::string_view, 2> kSwitch{"off", "on"};
constexpr std::array<std::string_view, 4> kLogLevels{"debug", "info", "warn", "error"};

template <auto field, const auto& names>
bool parse_enum(std::string_view text, Config& config) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != text) continue;
    config.*field = static_cast<std::remove_reference_t<decltype(config.*field)>>(i);
    return true;
  }
  return false;
}

template <auto field, const auto& names>
std::string print_enum(const Config& config) {
  const auto index = static_cast<std::size_t>(config.*field);
  return index < names.size() ? std::string(names[index]) : std::to_string(index);
}

constexpr std::array<std::string_view, 7> kAlgorithms{
    "auto", "direct", "ring", "tree", "halving_doubling", "recursive_doubling", "hierarchical"};

// The start of a file's name, or off.
template <std::string Config::*field>
bool parse_file(std::string_view text, Config& config) {
  if (text.empty() || text.ends_with('/') || text.find('\0') != std::string_view::npos) return false;
  config.*field = text == kSwitch[0] ? std::string_view() : text;
  return true;
}

template <std::string Config::*field>
std::string print_file(const Config& config) {
  return (config.*field).empty() ? std::string(kSwitch[0]) : config.*field;
}

// The longest meanings.
constexpr std::string_view kBucketMeaning =
    "Size at which a bucket is closed. Larger: fewer operations; smaller: an earlier start. auto: 8M for gradients in "
    "CPU memory that travel over a network, otherwise 16M.";
constexpr std::string_view kIdleBufferMeaning =
    "Idle result buffers that a host keeps for requests, an equal part for each rank. A request beyond it allocates "
    "its result anew, which is several times slower.";
constexpr std::string_view kCoordinatorMeaning =
    "Threads that advance operations. always: also the coordinator; never: only threads that call kolo; auto: always "
    "if cores are free or there are several hosts.";
constexpr std::string_view kDeviceReductionMeaning =
    "What reduces gradients on GPUs. nccl: NCCL; host: the CPUs; hierarchical, mixed: NCCL inside each host, and NCCL "
    "or the network between hosts; auto: NCCL if all ranks have it, otherwise the CPUs. The same on all ranks.";
constexpr std::string_view kTcpCongestionMeaning =
    "TCP congestion control between hosts. system: the kernel's default; auto: the default, but cubic instead of bbr.";
constexpr std::string_view kFileRange = "off, or the start of a file's name";
constexpr std::string_view kStepLogMeaning =
    "Each rank appends a line for each training step to `<value>.rank<R>.jsonl`: where the time went.";
constexpr std::string_view kTimelineMeaning = "Each rank writes a trace for Perfetto to `<value>.rank<R>.json`.";
constexpr std::string_view kSyncMeaning =
    "For measurements. off: gradients are not reduced and weights are not compared, so each rank trains a model of its "
    "own.";

constexpr bool kAdvanced = true;

constexpr ConfigRow kRows[] = {
    {"KOLO_BUCKET_BYTES", "auto, 1K to 4G", kBucketMeaning, parse_bucket, print_bucket, true},
    {"KOLO_LAST_BUCKET_BYTES", "1K to 4G", "Limit of the last bucket, which overlaps with nothing.",
     parse_size<&Config::last_bucket_bytes, kKiB, 4 * kGiB>, print_size<&Config::last_bucket_bytes>, true, kAdvanced},
    {"KOLO_IDLE_BUFFER_BYTES", "0 to 1024G", kIdleBufferMeaning, parse_size<&Config::idle_buffer_bytes, 0, 1024 * kGiB>,
     print_size<&Config::idle_buffer_bytes>, true, kAdvanced},
    {"KOLO_TIMEOUT", "10ms to 168h",
     "How long a wait for other ranks may take before it throws TimeoutError. Context::create() waits at least five "
     "minutes.",
     parse_time<&Config::timeout, 10>, print_time<&Config::timeout>},
    {"KOLO_STALL_WARNING", "0 to 168h",
     "How long a rank waits before it logs a warning that names the missing ranks. 0: no warning.",
     parse_time<&Config::stall_warning, 0>, print_time<&Config::stall_warning>},
    {"KOLO_MONITOR", "off, on", "Runs a thread of each rank that finds lost ranks on all hosts.",
     parse_enum<&Config::monitor, kSwitch>, print_enum<&Config::monitor, kSwitch>, true, kAdvanced},
    {"KOLO_MONITOR_TIMEOUT", "0, 100ms to 168h",
     "How long a rank may be silent (stopped or disconnected) before it counts as lost. 0: no limit.", parse_silence,
     print_time<&Config::monitor_timeout>, true},
    {"KOLO_NETWORK", "auto, tcp, mpi",
     "The transport between hosts. auto: MPI if every host has an RDMA device, otherwise TCP.",
     parse_enum<&Config::network, kNetworks>, print_enum<&Config::network, kNetworks>},
    {"KOLO_INTERFACE", "auto, the name of an interface, or a network such as 10.0.0.0/24",
     "Network of the monitor and of messages over TCP between hosts. auto: the first network that all hosts share.",
     parse_word<&Config::interface>, print_word<&Config::interface>},
    {"KOLO_TCP_CONGESTION", "auto, system, or a name such as cubic", kTcpCongestionMeaning,
     parse_word<&Config::tcp_congestion>, print_word<&Config::tcp_congestion>, false, kAdvanced},
    {"KOLO_COORDINATOR", "auto, always, never", kCoordinatorMeaning,
     parse_enum<&Config::coordinator, kCoordinatorModes>, print_enum<&Config::coordinator, kCoordinatorModes>, false,
     kAdvanced},
    {"KOLO_RING_SEGMENT_BYTES", "1K to 1G", "Size of a segment of an algorithm over a network.",
     parse_size<&Config::ring_segment_bytes, kKiB, kGiB>, print_size<&Config::ring_segment_bytes>, true, kAdvanced},
    {"KOLO_DEVICE_REDUCTION", "auto, nccl, host, hierarchical, mixed", kDeviceReductionMeaning,
     parse_enum<&Config::device_reduction, kDeviceReductions>,
     print_enum<&Config::device_reduction, kDeviceReductions>},
    {"KOLO_SHARED_DEVICE", "off, on", "Allows several ranks on one GPU, for tests; NCCL then uses sockets.",
     parse_enum<&Config::shared_device, kSwitch>, print_enum<&Config::shared_device, kSwitch>, true, kAdvanced},
    {"KOLO_NCCL_MAX_CTAS", "0 to 64", "The most thread blocks that one NCCL collective may use. 0: NCCL decides.",
     parse_int<&Config::nccl_max_ctas, 0, 64>, print_int<&Config::nccl_max_ctas>, true, kAdvanced},
    {"KOLO_NCCL_REGISTRATION", "off, on", "Allocates gradient buckets with NCCL and registers them.",
     parse_enum<&Config::nccl_registration, kSwitch>, print_enum<&Config::nccl_registration, kSwitch>, true, kAdvanced},
    {"KOLO_STREAM_PRIORITY", "high, normal", "Priority of the communication stream on a GPU.",
     parse_enum<&Config::stream_priority, kStreamPriorities>, print_enum<&Config::stream_priority, kStreamPriorities>,
     false, kAdvanced},
    {"KOLO_SPIN_ITERATIONS", "0 to 1000000000", "How often a wait polls before it yields, and before it sleeps.",
     parse_int<&Config::spin_iterations, 0, 1'000'000'000>, print_int<&Config::spin_iterations>, false, kAdvanced},
    {"KOLO_STEP_LOG", kFileRange, kStepLogMeaning, parse_file<&Config::step_log>, print_file<&Config::step_log>, true},
    {"KOLO_TIMELINE", kFileRange, kTimelineMeaning, parse_file<&Config::timeline>, print_file<&Config::timeline>, true},
    {"KOLO_SYNC", "off, on", kSyncMeaning, parse_enum<&Config::sync, kSwitch>, print_enum<&Config::sync, kSwitch>, true,
     kAdvanced},
    {"KOLO_OVERLAP", "off, on", "For measurements. off: the reduction of gradients starts after backward.",
     parse_enum<&Config::overlap, kSwitch>, print_enum<&Config::overlap, kSwitch>, true, kAdvanced},
    {"KOLO_ALGORITHM", "auto, direct, ring, tree, halving_doubling, recursive_doubling, hierarchical",
     "For measurements. The allreduce algorithm of gradients that are reduced on CPUs.",
     parse_enum<&Config::algorithm, kAlgorithms>, print_enum<&Config::algorithm, kAlgorithms>, true, kAdvanced},
    {"KOLO_LOG_LEVEL", "debug, info, warn, error", "The lowest level of lines that reach the log sink.",
     parse_enum<&Config::log_level, kLogLevels>, print_enum<&Config::log_level, kLogLevels>},
};

// Known to the build scripts and to `kolo run`, not to the library.
constexpr std::string_view kScriptVariables[] = {"KOLO_TORCH_DIR", "KOLO_RUN_JOB", "KOLO_RUN_FAILURE",
                                                 "KOLO_RUN_COLUMNS"};

constexpr std::string_view kPrefix = "KOLO_";

const ConfigRow* find_row(std::string_view name) {
  for (const ConfigRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool is_script_variable(std::string_view name) {
  for (const std::string_view known : kScriptVariables) {
    if (known == name) return true;
  }
  return false;
}

std::string unknown_variable(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ConfigRow& row : kRows) known.push_back(row.name);
  const std::string text = "environment variable " + std::string(name) + " is unknown and has no effect; ";
  const auto nearest = base::nearest(name, known);
  // At most one wrong letter in three: other names are not similar enough.
  const std::size_t slips = std::max<std::size_t>(1, (name.size() - kPrefix.size()) / 3);
  if (base::edit_distance(name, nearest) > slips) return text + "`kolo config` lists all variables";
  return text + "the nearest known one is " + std::string(nearest);
}

// For a number without the unit of a time.
std::string hint(const ConfigRow& row, const std::string& value) {
  Config unused;
  if (!parse_integer(value) || !row.parse(value + "s", unused)) return {};
  return "; it needs a unit: " + value + "s or " + value + "ms";
}

}  // namespace

std::span<const ConfigRow> config_rows() { return kRows; }

ParsedConfig parse_config(const std::map<std::string, std::string>& variables) {
  ParsedConfig parsed;
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(kPrefix) || is_script_variable(name)) continue;
    const ConfigRow* row = find_row(name);
    if (row == nullptr) {
      parsed.warnings.push_back(unknown_variable(name));
    } else if (!row->parse(value, parsed.config)) {
      throw UsageError("environment variable " + name + "='" + value +
                       "' is not allowed; allowed: " + std::string(row->range) + hint(*row, value));
    }
  }
  return parsed;
}

void check(const Config& config) {
  Config unused;
  for (const ConfigRow& row : kRows) {
    const std::string value = row.print(config);
    if (row.parse(value, unused)) continue;
    throw UsageError("Config: " + std::string(row.name) + "='" + value +
                     "' is not allowed; allowed: " + std::string(row.range));
  }
}

}  // namespace kolo::runtime

namespace kolo {

Config Config::from_environment() {
  runtime::ParsedConfig parsed = runtime::parse_config(base::get_environment_with_prefix("KOLO_"));
  if (!parsed.warnings.empty()) {
    const telemetry::Logger logger(parsed.config.log_level);
    for (const std::string& warning : parsed.warnings) logger.warn(warning);
  }
  return std::move(parsed.config);
}

std::vector<ConfigVariable> describe(const Config& config) {
  const Config defaults;
  std::vector<ConfigVariable> variables;
  for (const runtime::ConfigRow& row : runtime::config_rows()) {
    const std::string_view same = row.same_on_all ? " The same on all ranks." : "";
    variables.push_back({std::string(row.name), row.print(defaults), std::string(row.range),
                         std::string(row.meaning) + std::string(same), row.print(config), row.advanced});
  }
  return variables;
}

}  // namespace kolo

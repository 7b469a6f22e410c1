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

// The longest meanings.
constexpr std::string_view kBucketMeaning =
    "Size at which a bucket or fusion buffer is closed. Larger: fewer operations; smaller: an earlier start. auto: "
    "16M, and 8M of the hosts' memory where it travels over a network.";
constexpr std::string_view kIdleBufferMeaning =
    "Buffers for operations by name that the ranks of a host keep for reuse, each rank an equal part; the least "
    "recently "
    "used is freed first. If repeated names need more, operations allocate and wait for all ranks.";
constexpr std::string_view kCoordinatorMeaning =
    "Which threads move buckets forward: the coordinator thread too (always), only the callers (never: a rank that "
    "polls calls "
    "Engine::progress()), or as the free cores suggest (auto).";
constexpr std::string_view kDeviceReductionMeaning =
    "What reduces gradients on GPUs: NCCL, and it is an error where a rank has none (nccl); the hosts, through their "
    "memory (host); NCCL inside each host and between hosts, a share for each GPU, NCCL (hierarchical) or the hosts' "
    "network (mixed); NCCL where all ranks have it, else the hosts, with a warning (auto). The same on all ranks.";
constexpr std::string_view kTcpCongestionMeaning =
    "The kernel's congestion control for connections between hosts: by name; the kernel's default, whatever it is "
    "(system); or the default, but cubic where that is bbr, whose pacing costs a timer for every burst (auto).";
constexpr std::string_view kNcclRegistrationMeaning =
    "Whether gradients on GPUs lie in memory that is allocated by NCCL and registered with it (NCCL 2.19), which "
    "NVLink and some networks move without a copy.";

constexpr std::string_view kTimeoutMeaning =
    "How long any wait for peers may take before it is a TimeoutError. Making a Context may take five minutes, "
    "whatever this says.";

constexpr ConfigRow kRows[] = {
    {"KOLO_BUCKET_BYTES", "auto, 1K to 4G", kBucketMeaning, parse_bucket, print_bucket, true},
    {"KOLO_LAST_BUCKET_BYTES", "1K to 4G",
     "Cap of the last bucket of a plan: nothing is left to overlap it with, so it is short.",
     parse_size<&Config::last_bucket_bytes, kKiB, 4 * kGiB>, print_size<&Config::last_bucket_bytes>, true},
    {"KOLO_IDLE_BUFFER_BYTES", "0 to 1024G", kIdleBufferMeaning, parse_size<&Config::idle_buffer_bytes, 0, 1024 * kGiB>,
     print_size<&Config::idle_buffer_bytes>, true},
    {"KOLO_TIMEOUT", "10ms to 168h", kTimeoutMeaning, parse_time<&Config::timeout, 10>, print_time<&Config::timeout>},
    {"KOLO_STALL_WARNING", "0 to 168h",
     "How long a wait may take before a warning names its tensors and the missing ranks. 0: never.",
     parse_time<&Config::stall_warning, 0>, print_time<&Config::stall_warning>},
    {"KOLO_MONITOR", "off, on", "Whether a thread of each rank watches over the others, on all hosts.",
     parse_enum<&Config::monitor, kSwitch>, print_enum<&Config::monitor, kSwitch>, true},
    {"KOLO_MONITOR_TIMEOUT", "0, 100ms to 168h",
     "How long a rank may be silent (stopped, cut off) before it counts as lost. 0: for ever.", parse_silence,
     print_time<&Config::monitor_timeout>, true},
    {"KOLO_NETWORK", "auto, tcp, mpi",
     "What carries messages between hosts; auto: MPI where every host has an RDMA device, TCP elsewhere.",
     parse_enum<&Config::network, kNetworks>, print_enum<&Config::network, kNetworks>},
    {"KOLO_INTERFACE", "auto, an interface's name, or a network as 10.0.0.0/24",
     "Where ranks of several hosts reach each other (the monitor, and messages over TCP); auto: in the first network "
     "that all hosts share.",
     parse_word<&Config::interface>, print_word<&Config::interface>},
    {"KOLO_TCP_CONGESTION", "auto, system, or a name as cubic", kTcpCongestionMeaning,
     parse_word<&Config::tcp_congestion>, print_word<&Config::tcp_congestion>},
    {"KOLO_COORDINATOR", "auto, always, never", kCoordinatorMeaning,
     parse_enum<&Config::coordinator, kCoordinatorModes>, print_enum<&Config::coordinator, kCoordinatorModes>},
    {"KOLO_RING_SEGMENT_BYTES", "1K to 1G",
     "Segment of the ring over a network: below Open MPI's eager limit for TCP, so that both directions of a link run "
     "at once.",
     parse_size<&Config::ring_segment_bytes, kKiB, kGiB>, print_size<&Config::ring_segment_bytes>, true},
    {"KOLO_DEVICE_REDUCTION", "auto, nccl, host, hierarchical, mixed", kDeviceReductionMeaning,
     parse_enum<&Config::device_reduction, kDeviceReductions>,
     print_enum<&Config::device_reduction, kDeviceReductions>},
    {"KOLO_SHARED_DEVICE", "off, on",
     "Whether ranks may share a GPU (on): for tests, over sockets and slowly. Otherwise it is an error on all ranks.",
     parse_enum<&Config::shared_device, kSwitch>, print_enum<&Config::shared_device, kSwitch>, true},
    {"KOLO_NCCL_MAX_CTAS", "0 to 64",
     "Blocks of the GPU that one collective of NCCL may take from the computation. 0: as many as NCCL likes.",
     parse_int<&Config::nccl_max_ctas, 0, 64>, print_int<&Config::nccl_max_ctas>, true},
    {"KOLO_NCCL_REGISTRATION", "off, on", kNcclRegistrationMeaning, parse_enum<&Config::nccl_registration, kSwitch>,
     print_enum<&Config::nccl_registration, kSwitch>, true},
    {"KOLO_STREAM_PRIORITY", "high, normal",
     "Of the stream in which gradients are packed and reduced on a GPU. high: its kernels are the next to get free "
     "multiprocessors, so that the exchange begins at once; normal: they wait their turn.",
     parse_enum<&Config::stream_priority, kStreamPriorities>, print_enum<&Config::stream_priority, kStreamPriorities>},
    {"KOLO_SPIN_ITERATIONS", "0 to 1000000000", "How often a wait looks again before it yields, and then sleeps.",
     parse_int<&Config::spin_iterations, 0, 1'000'000'000>, print_int<&Config::spin_iterations>},
    {"KOLO_LOG_LEVEL", "debug, info, warn, error", "The least severe lines that reach the log sink.",
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
  // A slip is a letter in three at most; beyond that a name is no likelier to be meant than any other.
  const std::size_t slips = std::max<std::size_t>(1, (name.size() - kPrefix.size()) / 3);
  if (base::edit_distance(name, nearest) > slips) return text + "`kolo config` shows those that there are";
  return text + "the nearest known one is " + std::string(nearest);
}

// For a number that would do as a time.
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
                         std::string(row.meaning) + std::string(same), row.print(config)});
  }
  return variables;
}

}  // namespace kolo

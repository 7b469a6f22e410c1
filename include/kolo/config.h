#pragma once
// Settings of a Context.
//
//   kolo::Config config = kolo::Config::from_environment();  // KOLO_TIMEOUT=60s and the like
//   config.timeout = std::chrono::seconds(60);
//   const auto context = kolo::Context::create(config);
//
// Each field but log_sink has a variable KOLO_<FIELD IN CAPITALS>; docs/configuration.md lists them. A program rarely
// needs more than timeout, stall_warning, network, interface, device_reduction, log_level and log_sink. A field "equal
// on all ranks" needs the same value on all ranks; otherwise Context::create() throws MismatchError.
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

enum class LogLevel : unsigned char { debug, info, warn, error };

// Receives each log line. kolo calls it from several threads, possibly at once. It must not call kolo.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

// Whether a background thread (the coordinator) advances operations. never: they advance only while a thread is in a
// call of kolo. automatic: behaves like `always` if cores are free or there are several hosts, otherwise like `never`.
enum class CoordinatorMode { automatic, always, never };

// The transport between hosts. automatic: MPI if every host has an RDMA device that MPI can use, otherwise TCP.
enum class Network { automatic, tcp, mpi };

// How gradients on GPUs are reduced. Equal on all ranks.
//   nccl          by NCCL
//   host          on the CPUs: gradients are copied to CPU memory and back; step() waits for the copies
//   hierarchical  NCCL reduce-scatter inside each host, NCCL allreduce of each part between hosts,
//                 NCCL allgather inside each host
//   mixed         as hierarchical, but the allreduce between hosts uses the transport that
//                 Config::network selects
//   automatic     nccl if all ranks have NCCL, otherwise host with a warning
enum class DeviceReduction { automatic, nccl, host, hierarchical, mixed };

// CUDA priority of kolo's communication stream.
enum class StreamPriority { high, normal };

struct Config {
  // Bytes after which a bucket is closed. Larger: fewer operations; smaller: an earlier start. 0: 16 MiB, or 8 MiB for
  // gradients in CPU memory that travel over a network. Equal on all ranks.
  std::size_t bucket_bytes = 0;
  // The last bucket holds at most this many bytes, as no computation is left to hide its reduction. Equal on all ranks.
  std::size_t last_bucket_bytes = std::size_t{1} << 20;
  // Bytes of result buffers that a host caches for requests, an equal part for each rank. The least recently used
  // buffer is freed first. A request that finds no buffer waits until all ranks have allocated one. Equal on all ranks.
  std::size_t idle_buffer_bytes = std::size_t{256} << 20;
  // How long a wait for other ranks may take before it throws TimeoutError. Context::create() waits at least five
  // minutes for missing ranks.
  std::chrono::milliseconds timeout{std::chrono::seconds(600)};
  // How long a rank waits before it logs a warning with the operation and the missing ranks. 0: no warning.
  std::chrono::milliseconds stall_warning{std::chrono::seconds(60)};
  // A thread detects lost ranks on all hosts by heartbeats. Without it, survivors() throws UsageError. Equal on all
  // ranks.
  bool monitor = true;
  // How long a rank may be silent (stopped, disconnected, host gone) before it counts as lost. 0: no limit.
  // Equal on all ranks.
  std::chrono::milliseconds monitor_timeout{std::chrono::seconds(30)};
  Network network = Network::automatic;
  // The network interface for heartbeats and TCP messages between hosts, by name or by network ("10.0.0.0/24").
  // Empty: the first interface whose network all hosts share.
  std::string interface;
  // TCP congestion control between hosts: a name such as "cubic", or "system" for the kernel's default. Empty: the
  // kernel's default, except that cubic replaces bbr, which is slow here.
  std::string tcp_congestion;
  CoordinatorMode coordinator = CoordinatorMode::automatic;
  // Algorithms over a network split messages into segments of this many bytes, so that a rank sends one segment while
  // it receives another. The default is below Open MPI's eager limit for TCP. Equal on all ranks.
  std::size_t ring_segment_bytes = 60 * 1024;
  DeviceReduction device_reduction = DeviceReduction::automatic;
  // Allows several ranks on one GPU, for tests; NCCL then uses sockets. If false and two ranks use one GPU, every rank
  // throws UsageError. Equal on all ranks.
  bool shared_device = false;
  // The most thread blocks that one NCCL collective may use. 0: NCCL decides. Equal on all ranks.
  int nccl_max_ctas = 0;
  // Allocates gradient buckets with NCCL and registers them (NCCL 2.19), so that NVLink and some networks need no copy.
  // Equal on all ranks.
  bool nccl_registration = true;
  StreamPriority stream_priority = StreamPriority::high;
  // A waiting thread polls this many times before it yields, and later sleeps.
  int spin_iterations = 2000;
  // Each rank appends to `<step_log>.rank<R>.jsonl` one line for each step of a DistributedOptimizer: where the time of
  // the step went (docs/scaling.md). The folder must exist. Empty: no step log. Equal on all ranks.
  std::string step_log;
  // Each rank writes a trace for Perfetto to `<timeline>.rank<R>.json`: see Context::start_timeline(). Empty: none.
  // Equal on all ranks.
  std::string timeline;
  // The next three are for measurements. Equal on all ranks.
  // false: gradients are not reduced and weights are not compared, so each rank trains a model of its own.
  bool sync = true;
  // false: the reduction of gradients starts in step() or synchronize(), after backward.
  bool overlap = true;
  // The allreduce algorithm for gradients on CPUs; Algorithm::mpi is not allowed. If the ranks cannot run it, the
  // constructor of DistributedOptimizer throws UsageError.
  Algorithm algorithm = Algorithm::automatic;
  LogLevel log_level = LogLevel::info;
  // This field has no environment variable. An empty sink writes to stderr.
  LogSink log_sink;

  // Reads KOLO_*. Throws UsageError that names the variable, its value and the allowed values. Writes a warning about
  // unknown KOLO_* variables to stderr.
  static Config from_environment();
};

// One setting for display. Values are text that the variable accepts: "16M", "600s", "auto".
struct ConfigVariable {
  std::string name;  // KOLO_BUCKET_BYTES
  std::string default_value;
  std::string range;
  std::string meaning;
  std::string value;      // in the given Config
  bool advanced = false;  // few programs change it
};

[[nodiscard]] std::vector<ConfigVariable> describe(const Config& config);

}  // namespace kolo

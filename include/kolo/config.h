#pragma once
// Every setting, once: its field here, its variable KOLO_<FIELD IN CAPITALS> in src/runtime/config_table.cpp, its line
// in docs/configuration.md (generated).
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "kolo/export.h"
#include "kolo/log.h"

namespace KOLO_EXPORT kolo {

enum class CoordinatorMode { automatic, always, never };

// What carries messages between hosts. automatic: MPI where every host has an RDMA device, which MPI knows how to use,
// TCP elsewhere.
enum class Network { automatic, tcp, mpi };

// What reduces gradients on GPUs: NCCL, or the hosts, in their own memory, for which the end of a round has to wait for
// the gradients to come from the GPU. Where hosts have several GPUs, in two steps: NCCL inside a host, and between
// hosts, a share for each GPU, NCCL (hierarchical) or the hosts' own network (mixed). automatic: NCCL where all ranks
// have it, else the hosts, of which a warning tells.
enum class DeviceReduction { automatic, nccl, host, hierarchical, mixed };

// Of the stream in which kolo packs and reduces on a GPU: before everything else that waits for free multiprocessors,
// or as everything else.
enum class StreamPriority { high, normal };

struct Config {
  // Bytes after which a bucket or fusion buffer is closed. Larger: fewer operations; smaller: earlier start. 0: 16 MiB,
  // and 8 MiB of the hosts' memory where it travels over a network, which is to have something to carry early.
  std::size_t bucket_bytes = 0;
  // Cap of the last bucket of a plan, which cannot overlap with anything: keep it short.
  std::size_t last_bucket_bytes = std::size_t{1} << 20;
  // Bytes of idle buffers that a host keeps for operations by name, each rank an equal part; the
  // least recently used is freed first. An operation without such a buffer allocates, and waits for all ranks.
  std::size_t idle_buffer_bytes = std::size_t{256} << 20;
  // How long any wait for peers may take before it is an error. Making a Context may take five minutes, whatever this
  // says.
  std::chrono::milliseconds timeout{std::chrono::seconds(600)};
  // How long before a stall is reported as a warning that names tensors and missing ranks. 0: never.
  std::chrono::milliseconds stall_warning{std::chrono::seconds(60)};
  // Whether a thread of this rank watches over the others: deaths are then seen on all hosts at once.
  bool monitor = true;
  // How long a rank may be silent (stopped, cut off, its host gone) before it counts as lost. 0: for ever.
  std::chrono::milliseconds monitor_timeout{std::chrono::seconds(30)};
  // What carries messages between hosts.
  Network network = Network::automatic;
  // The interface, by name or by network ("10.0.0.0/24"), on which the ranks of several hosts reach each other: their
  // monitors, and their messages where these go over TCP. Empty: the first whose network all hosts share.
  std::string interface;
  // The kernel's congestion control for connections between hosts: "cubic" and the like, or "system": what it has by
  // default. Empty: that too, but cubic for bbr, whose pacing costs a timer for every burst.
  std::string tcp_congestion;
  // Who moves buckets forward: the coordinator thread too (always), only the callers (never), or chosen from the
  // cores there are (automatic).
  CoordinatorMode coordinator = CoordinatorMode::automatic;
  // Segment of the ring over a network, bytes: below Open MPI's TCP eager limit, so that over MPI too both directions
  // of a link run at once.
  std::size_t ring_segment_bytes = 60 * 1024;
  // What reduces gradients on GPUs: the same on all ranks.
  DeviceReduction device_reduction = DeviceReduction::automatic;
  // Whether ranks may share a GPU: for tests, where NCCL then goes over sockets. Otherwise that is an error on all
  // ranks.
  bool shared_device = false;
  // Blocks of the GPU that one collective of NCCL may take from the computation. 0: as many as NCCL likes.
  int nccl_max_ctas = 0;
  // Whether gradients on GPUs lie in memory that is allocated by NCCL and registered with it (NCCL 2.19), which NVLink
  // and some networks move without a copy: the same on all ranks.
  bool nccl_registration = true;
  // Of kolo's own stream on a GPU.
  StreamPriority stream_priority = StreamPriority::high;
  // How often a wait looks again before it yields, and before it sleeps.
  int spin_iterations = 2000;
  LogLevel log_level = LogLevel::info;
  // Not in the environment: where log lines go. Empty: stderr.
  LogSink log_sink;

  // Reads KOLO_*; throws UsageError naming variable, value and what is allowed. Warns of unknown KOLO_* on stderr.
  static Config from_environment();
};

// One setting as people see it. Values are text that the variable accepts: "16M", "600s", "auto".
struct ConfigVariable {
  std::string name;  // KOLO_BUCKET_BYTES
  std::string default_value;
  std::string range;
  std::string meaning;
  std::string value;  // what `config` has
};

[[nodiscard]] std::vector<ConfigVariable> describe(const Config& config);

}  // namespace kolo

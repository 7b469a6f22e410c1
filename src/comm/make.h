#pragma once
// Construction of every Communicator. Each lives in a file of its own; no_mpi.cpp stands in where MPI was not built.
#include <chrono>
#include <memory>
#include <vector>

#include "base/call_limit.h"
#include "kolo/config.h"
#include "kolo/spi/communicator.h"
#include "telemetry/counters.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace kolo::comm {

struct AlgorithmicParts {
  transport::Transport* transport = nullptr;         // borrowed; spans the group
  transport::SharedMemory* shared_memory = nullptr;  // borrowed; null unless all ranks of the group are on one host
  telemetry::Counters* counters = nullptr;           // borrowed
  transport::Tag first_tag = 0;                      // the communicator uses [first_tag, first_tag + tag_count)
  transport::Tag tag_count = 1U << 20;
  std::size_t ring_segment_bytes = 60 * 1024;
  int spin_iterations = 2000;
  int local_cores = 1;  // see Placement
  // For the choice of an algorithm; equal on all ranks of the group. Hosts that the group is on; 0: one, where it has
  // shared memory, else a host for every rank. Groups on the same hosts that use the same links at the same time.
  int hosts = 0;
  int sharing = 1;
  std::shared_ptr<base::CallLimit> calls = nullptr;  // of a program that makes them directly; null: the engine does
  std::chrono::milliseconds timeout{std::chrono::seconds(600)};  // for the shared memory that is made when first needed
};

// Our algorithms over a transport; direct through shared memory where there is one.
[[nodiscard]] std::unique_ptr<Communicator> make_algorithmic(const AlgorithmicParts& parts);

// A group on several hosts, some of which have several of its ranks.
struct HierarchicalParts {
  // As for an algorithmic communicator over the whole group, but that shared_memory spans the ranks of this host: null
  // where this rank is the only one. Local rank i there is the i-th of this rank's entry of `hosts`.
  AlgorithmicParts whole;
  std::vector<std::vector<Rank>> hosts;  // the ranks of each host; the same on all ranks
  bool may_be_flat = true;  // an allreduce may go over the whole group where the cost model finds that cheaper
};

// Shared memory inside each host, an algorithm over the network across them. See hierarchical_communicator.cpp.
[[nodiscard]] std::unique_ptr<Communicator> make_hierarchical(const HierarchicalParts& parts);
// A group of one.
[[nodiscard]] std::unique_ptr<Communicator> make_self();
// Plain MPI collectives over a duplicate of `mpi_comm` (a MPI_Comm*; null: MPI_COMM_WORLD): the baseline. Blocking
// calls are MPI's own and know no deadline. Throws UsageError in a build without MPI.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi(const void* mpi_comm = nullptr);

}  // namespace kolo::comm

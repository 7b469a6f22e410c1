#pragma once
// Construction of every Communicator. Each lives in a file of its own; no_mpi.cpp stands in where MPI was not built.
#include <chrono>
#include <memory>

#include "kolo/communicator.h"
#include "kolo/config.h"
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
  std::chrono::milliseconds timeout{std::chrono::seconds(600)};  // for the shared memory that is made when first needed
};

// Our algorithms over a transport; direct through shared memory where there is one.
[[nodiscard]] std::unique_ptr<Communicator> make_algorithmic(const AlgorithmicParts& parts);
// A group of one.
[[nodiscard]] std::unique_ptr<Communicator> make_self();
// Plain MPI collectives over a duplicate of `mpi_comm` (a MPI_Comm*; null: MPI_COMM_WORLD): the baseline. Blocking
// calls are MPI's own and know no deadline. Throws UsageError in a build without MPI.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi(const void* mpi_comm = nullptr);

}  // namespace kolo::comm

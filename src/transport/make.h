#pragma once
// Construction of every Transport and SharedMemory.
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/bootstrap.h"
#include "telemetry/counters.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace kolo::transport {

// Ranks as threads: element r is rank r's end. The hub lives as long as any of them.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_inproc(int ranks);
[[nodiscard]] std::vector<std::unique_ptr<SharedMemory>> make_inproc_shared_memory(int ranks);

// Processes of one host. Collective over bootstrap.local_ranks(); ranks of these transports are local ranks.
// A peer process that dies is seen through its pid descriptor: PeerLostError, with its rank in the world.
// `available` is how much memory there is to reserve: the system's but for tests.
[[nodiscard]] std::unique_ptr<SharedMemory> make_process_shared_memory(cluster::Bootstrap& bootstrap,
                                                                       std::chrono::milliseconds timeout,
                                                                       std::function<std::size_t()> available = {});
// Message rings in shared memory with futex doorbells. Uses `memory` once, while it is made.
[[nodiscard]] std::unique_ptr<Transport> make_shm(cluster::Bootstrap& bootstrap, SharedMemory& memory,
                                                  std::chrono::milliseconds timeout);

struct TcpSettings {
  std::string interface;           // KOLO_INTERFACE: the network, where hosts have several; empty: the first they share
  std::string congestion_control;  // KOLO_TCP_CONGESTION
};
// Over TCP connections between the hosts. Collective. A peer that ends is seen by the end of its connections.
[[nodiscard]] std::unique_ptr<Transport> make_tcp(cluster::Bootstrap& bootstrap, const TcpSettings& settings,
                                                  telemetry::Counters& counters);

// Over a duplicate of `mpi_comm` (a MPI_Comm*; null: MPI_COMM_WORLD). Throws UsageError in a build without MPI.
[[nodiscard]] std::unique_ptr<Transport> make_mpi(const void* mpi_comm, telemetry::Counters& counters);

}  // namespace kolo::transport

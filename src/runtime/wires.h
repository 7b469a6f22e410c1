#pragma once
// The ways between the ranks of a world, and the communicators over them.
#include <memory>
#include <vector>

#include "base/call_limit.h"
#include "cluster/bootstrap.h"
#include "kolo/config.h"
#include "kolo/spi/communicator.h"
#include "telemetry/counters.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace kolo::runtime {

// The ranks of each host, in the order of their local ranks; hosts in the order of their lowest ranks.
using Hosts = std::vector<std::vector<Rank>>;
[[nodiscard]] bool some_host_has_several(const Hosts& hosts);

// What `transport` goes over.
enum class Way { memory, tcp, mpi };

// For one user of them: the program, or the engine, whose threads never meet the program's.
struct Wires {
  std::vector<std::shared_ptr<void>> kept;          // memory that messages may still be in: goes last
  std::unique_ptr<transport::SharedMemory> memory;  // of this host's ranks; null where no host has several
  std::unique_ptr<transport::Transport> transport;  // of all ranks; null in a world of one
  std::unique_ptr<transport::Transport> of_share;   // a part of `transport`, see make_share_communicator()
  Hosts hosts;
  int local_cores = 1;  // see Placement
  Way way = Way::memory;
  transport::Tag next_tag = 0;             // of `transport`, not given to anybody yet
  std::shared_ptr<base::CallLimit> calls;  // of the program's; null: the engine's
};

// tcp or mpi, the same on all ranks: what `setting` says; where that is automatic, MPI if every rank's host has an RDMA
// device, TCP otherwise. Collective. Throws UsageError on every rank when the settings differ.
[[nodiscard]] Network choose_network(cluster::Bootstrap& bootstrap, Network setting);

// Between processes. With all ranks on one host: shared memory. Otherwise TCP or MPI (config.network), and shared
// memory inside each host. Collective.
[[nodiscard]] Wires make_process_wires(cluster::Bootstrap& bootstrap, const void* mpi_comm,
                                       telemetry::Counters& counters, const Config& config);
// Between threads of this process, by rank.
[[nodiscard]] std::vector<Wires> make_thread_wires(const Hosts& hosts);

// A tag for one use, or `count` in a row. Throws BackendError when the medium has no more.
[[nodiscard]] transport::Tag take_tags(Wires& wires, transport::Tag count);

// Two tags for the first conversation of a world over some of these ranks: others for the next few epochs, and nobody
// else's.
[[nodiscard]] transport::Tag conversation_tag(const Wires& wires, std::uint64_t epoch);

// The best for where the ranks are: over shared memory on one host, hierarchical on several of which some have several
// ranks, over the network alone otherwise. All ranks make communicators over the same wires in the same order.
enum class Use { one_by_one, many_at_once };  // how operations are started on it
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(Wires& wires, const Config& config,
                                                              telemetry::Counters& counters, Use use);

// Over ranks that have the same local rank, one on each host: as many such groups as the smallest host has ranks. Null
// for a rank that is in none, which calls it all the same.
[[nodiscard]] std::unique_ptr<Communicator> make_share_communicator(Wires& wires, const Config& config,
                                                                    telemetry::Counters& counters);
// How many such groups there are.
[[nodiscard]] std::size_t shares_of(const Hosts& hosts);
// The group of `rank`, by host; empty: it is in none.
[[nodiscard]] std::vector<Rank> share_ranks(const Hosts& hosts, Rank rank);

}  // namespace kolo::runtime

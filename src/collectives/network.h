#pragma once
// The operations over a Transport: one start function for each algorithm, which says where it is described.
#include <cstddef>
#include <memory>

#include "collectives/machine.h"
#include "kolo/spi/communicator.h"
#include "transport/transport.h"

namespace kolo::collectives {

// An operation's messages carry its tag or the one after it: the two trees may use one link in both directions each.
inline constexpr transport::Tag kTagsPerOperation = 2;

// What every one of them is given. Segments are messages of at most `segment_bytes`.
struct NetworkParts {
  std::shared_ptr<Group> group;
  transport::Tag tag = 0;
  std::size_t segment_bytes = 60 * 1024;
};

// Allreduce for any number of ranks (2 and more), on private memory or on a buffer that only its owner touches.
[[nodiscard]] std::unique_ptr<Operation> start_ring_allreduce(const NetworkParts& parts,
                                                              const AllreduceOptions& options);
// Of data that lies apart, as check_scattering() has found it.
[[nodiscard]] std::unique_ptr<Operation> start_ring_allreduce(const NetworkParts& parts,
                                                              const AllreduceOptions& options,
                                                              const SegmentedBuffer& scattering);
[[nodiscard]] std::unique_ptr<Operation> start_tree_allreduce(const NetworkParts& parts,
                                                              const AllreduceOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_halving_doubling_allreduce(const NetworkParts& parts,
                                                                          const AllreduceOptions& options);
// For small messages: each is sent whole, flags and data together, whatever segment_bytes says. The first `halvings`
// rounds, equal on all ranks, halve what is sent; the same bits come of it.
[[nodiscard]] std::unique_ptr<Operation> start_recursive_doubling_allreduce(const NetworkParts& parts,
                                                                            const AllreduceOptions& options,
                                                                            int halvings);

[[nodiscard]] std::unique_ptr<Operation> start_ring_allgather(const NetworkParts& parts,
                                                              const AllgatherOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_ring_reduce_scatter(const NetworkParts& parts,
                                                                   const ReduceScatterOptions& options);
// A pipelined chain along the ring, from the root on.
[[nodiscard]] std::unique_ptr<Operation> start_chain_broadcast(const NetworkParts& parts,
                                                               const BroadcastOptions& options);
// Two pipelined trees: fewer hops where ranks are many.
[[nodiscard]] std::unique_ptr<Operation> start_tree_broadcast(const NetworkParts& parts,
                                                              const BroadcastOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_dissemination_barrier(const NetworkParts& parts);

}  // namespace kolo::collectives

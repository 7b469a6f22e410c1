#pragma once
// Collectives of one host through lanes: any memory, any size. One file each; the barrier is in lanes.cpp.
#include <memory>

#include "collectives/lanes.h"
#include "kolo/spi/communicator.h"

namespace kolo::collectives {

// From this many ranks on, an allreduce through lanes is sliced (lane_sliced_allreduce.cpp).
inline constexpr int kSlicedFrom = 4;

[[nodiscard]] std::unique_ptr<Operation> start_lane_allreduce(std::shared_ptr<Group> group,
                                                              const std::shared_ptr<Lanes>& lanes,
                                                              const AllreduceOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_lane_sliced_allreduce(std::shared_ptr<Group> group,
                                                                     const std::shared_ptr<Lanes>& lanes,
                                                                     const AllreduceOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_lane_broadcast(std::shared_ptr<Group> group,
                                                              const std::shared_ptr<Lanes>& lanes,
                                                              const BroadcastOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_lane_allgather(std::shared_ptr<Group> group,
                                                              const std::shared_ptr<Lanes>& lanes,
                                                              const AllgatherOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_lane_reduce_scatter(std::shared_ptr<Group> group,
                                                                   const std::shared_ptr<Lanes>& lanes,
                                                                   const ReduceScatterOptions& options);
[[nodiscard]] std::unique_ptr<Operation> start_lane_barrier(std::shared_ptr<Group> group,
                                                            const std::shared_ptr<Lanes>& lanes);

}  // namespace kolo::collectives

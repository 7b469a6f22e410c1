#pragma once
// A group of one: everything is a scaling or a copy. Also what every communicator does when its group has one rank.
#include <memory>

#include "kolo/spi/communicator.h"

namespace kolo::comm {

[[nodiscard]] std::unique_ptr<Operation> allreduce_alone(const AllreduceOptions& options);
[[nodiscard]] std::unique_ptr<Operation> allgather_alone(const AllgatherOptions& options);
[[nodiscard]] std::unique_ptr<Operation> reduce_scatter_alone(const ReduceScatterOptions& options);

}  // namespace kolo::comm

#pragma once
// All checks of options, in one place: UsageError before anything is sent.
#include "kolo/communicator.h"

namespace kolo::comm {

// Of buffers to be allocated, bytes: alone and together they must fit the address space.
void validate_sizes(std::span<const std::size_t> sizes);
void validate(const AllreduceOptions& options);
void validate(const BroadcastOptions& options, int size);
void validate(const AllgatherOptions& options, int size, Rank rank);
void validate(const ReduceScatterOptions& options, int size, Rank rank);

}  // namespace kolo::comm

#pragma once
// All checks of options, in one place: UsageError before anything is sent.
#include "kolo/spi/communicator.h"

namespace kolo::comm {

enum class Memory {
  host,
  device
};  // what a communicator works with: options with a stream of a device are not for all

// Of buffers to be allocated, bytes: alone and together they must fit the address space.
void validate_sizes(std::span<const std::size_t> sizes);
void validate(const AllreduceOptions& options, Memory memory = Memory::host);
void validate(const BroadcastOptions& options, int size, Memory memory = Memory::host);
void validate(const AllgatherOptions& options, int size, Rank rank, Memory memory = Memory::host);
void validate(const ReduceScatterOptions& options, int size, Rank rank, Memory memory = Memory::host);

}  // namespace kolo::comm

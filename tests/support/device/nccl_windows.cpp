// Memory that a simulated NCCL knows: windows, which all ranks make together, and what has to be ended before what.
#include <algorithm>
#include <cstdint>

#include "support/device/nccl_arithmetic.h"
#include "support/device/nccl_core.h"

namespace kolo::test {

using nccl::Result;

namespace {

bool overlap(const Range& used, const void* memory, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(used.memory);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  return used.memory != nullptr && first < begin + bytes && begin < first + used.bytes;
}

bool contains(const std::map<void*, std::size_t>& windows, const void* memory, std::size_t bytes) {
  return std::ranges::any_of(windows, [&](const auto& window) {
    const auto* begin = static_cast<const std::byte*>(window.first);
    const auto* first = static_cast<const std::byte*>(memory);
    return first >= begin && first + bytes <= begin + window.second;
  });
}

}  // namespace

Result NcclCore::ask_for_window(SimulatedComm& comm, const WindowCall& call) {
  if (!options.symmetric) return Result::success;  // and *window stays as it is
  const auto found = memory.find(call.memory);
  if (found == memory.end() || found->second < call.bytes) {
    report("register_window: of memory that is not ncclMemAlloc's");
    return Result::invalid_argument;
  }
  const std::size_t index = comm.windows_asked++;
  World& world = *comm.world;
  if (world.windows.size() <= index) world.windows.resize(index + 1);
  for (const auto& [rank, other] : world.windows[index]) {
    if (other.bytes == call.bytes && other.flags == call.flags) continue;
    report("register_window: ranks differ in window " + std::to_string(index) + ": rank " + std::to_string(comm.rank) +
           " has " + std::to_string(call.bytes) + " bytes, rank " + std::to_string(rank) + " has " +
           std::to_string(other.bytes));
    for (const auto& each : world.ranks) each->error = Result::internal_error;
  }
  world.windows[index][comm.rank] = call;
  comm.polls = static_cast<int>(random() % 3);
  return Result::in_progress;
}

bool NcclCore::make_windows(SimulatedComm& comm) {
  for (; comm.windows_made < comm.windows_asked; ++comm.windows_made) {
    const auto& round = comm.world->windows[comm.windows_made];
    if (round.size() != comm.world->ranks.size()) return false;
    const WindowCall& own = round.at(comm.rank);
    *own.window = own.memory;
    comm.windows[own.memory] = own.bytes;
  }
  return true;
}

Result NcclCore::end_registration(SimulatedComm& comm, void* memory_of, bool window) {
  const std::string call = window ? "deregister_window" : "deregister_buffer";
  const std::size_t bytes = memory.contains(memory_of) ? memory.at(memory_of) : 0;
  for (const auto& [launch, ranges] : comm.queued) {
    for (const Range& used : ranges) {
      if (overlap(used, memory_of, bytes))
        report(call + ": launch " + std::to_string(launch) + " still uses the memory");
    }
  }
  const std::size_t ended = window ? comm.windows.erase(memory_of) : comm.registered.erase(memory_of);
  if (ended == 0) report(call + ": of what is not registered");
  if (comm.life == SimulatedComm::Life::finalizing) report(call + ": the communicator was finalized before");
  return Result::success;
}

void NcclCore::check_registrations(const SimulatedComm& comm, const char* call, bool of_buffers) {
  const std::size_t left = comm.windows.size() + (of_buffers ? comm.registered.size() : 0);
  if (left != 0) report(std::string(call) + ": " + std::to_string(left) + " registrations were not ended before");
}

// Sums of floats only, as it is in NCCL.
bool NcclCore::in_windows(const SimulatedComm& comm, const NcclCall& call) const {
  const bool summed = call.op == nccl::Op::sum &&
                      (call.type == nccl::Type::f32 || call.type == nccl::Type::f16 || call.type == nccl::Type::bf16);
  const std::size_t bytes = call.count * size_of(call.type);
  return summed && contains(comm.windows, call.in, bytes) && contains(comm.windows, call.out, bytes);
}

}  // namespace kolo::test

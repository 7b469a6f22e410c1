// Communicators of a simulated NCCL: how they come to be, how their calls get into streams, how they end.
#include "support/device/nccl_core.h"

#include <algorithm>
#include <cstdint>

#include "base/environment.h"
#include "support/device/nccl_arithmetic.h"

namespace kolo::test {

using nccl::Result;

namespace {

bool overlap(const Range& used, const void* memory, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(used.memory);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  return used.memory != nullptr && first < begin + bytes && begin < first + used.bytes;
}

std::optional<SimulatedAlgorithm> wanted_algorithm() {
  const auto wanted = base::get_environment("NCCL_ALGO");
  if (wanted == "allreduce:ring") return SimulatedAlgorithm::ring;
  if (wanted == "allreduce:tree") return SimulatedAlgorithm::tree;
  return std::nullopt;
}

SimulatedAlgorithm algorithm_of(const SimulatedComm& comm, const NcclCall& call) {
  const bool small = call.count * size_of(call.type) < 65536;
  return comm.algorithm.value_or(small ? SimulatedAlgorithm::tree : SimulatedAlgorithm::ring);
}

}  // namespace

NcclCore::NcclCore(SimulatedDevice& the_device, const NcclOptions& the_options)
    : device(the_device), options(the_options), random(the_options.seed) {}

Result NcclCore::enter(const std::string& call) {
  ++counts[call];
  const auto failure = failures.find(call);
  if (failure == failures.end() || failure->second.second == 0) return Result::success;
  --failure->second.second;
  return failure->second.first;
}

SimulatedComm* NcclCore::find(nccl::Comm comm, const char* call) {
  for (const auto& each : comms) {
    if (each.get() != comm) continue;
    if (!each->ended()) return each.get();
    report(std::string(call) + ": the communicator has ended before");
    return nullptr;
  }
  report(std::string(call) + ": this is no communicator");
  return nullptr;
}

std::shared_ptr<SimulatedComm> NcclCore::add_comm() {
  comms.push_back(std::make_shared<SimulatedComm>());
  return comms.back();
}

void NcclCore::place(const std::shared_ptr<SimulatedComm>& comm, const std::shared_ptr<World>& world, int rank) {
  comm->world = world;
  comm->rank = rank;
  comm->algorithm = wanted_algorithm();
  comm->polls = static_cast<int>(random() % 4);
  comm->token = device.token("communicator " + std::to_string(world->number) + " of rank " + std::to_string(rank));
  world->ranks[static_cast<std::size_t>(rank)] = comm;
}

bool World::complete() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& each) { return each != nullptr; });
}

// Also what makes time pass: what was grouped gets into its stream when the rank has asked often enough.
Result NcclCore::state(SimulatedComm& comm) {
  if (comm.error != Result::success) return comm.error;
  if (!comm.world->complete()) return Result::in_progress;
  if (comm.polls > 0) {
    --comm.polls;
    return Result::in_progress;
  }
  for (PendingLaunch& each : std::exchange(comm.pending, {})) launch(comm, std::move(each));
  if (comm.life == SimulatedComm::Life::finalizing) {
    const auto& ranks = comm.world->ranks;
    const bool all = std::all_of(ranks.begin(), ranks.end(),
                                 [](const auto& each) { return each->life != SimulatedComm::Life::live; });
    if (!all || !comm.queued.empty()) return Result::in_progress;
  }
  return comm.error;
}

Result NcclCore::submit(SimulatedComm& comm, PendingLaunch launched_calls) {
  if (state(comm) == Result::in_progress) {
    report("a collective of rank " + std::to_string(comm.rank) + " although its communicator is still in progress");
    return Result::invalid_usage;
  }
  if (comm.error != Result::success) return comm.error;
  if (comm.life != SimulatedComm::Life::live) {
    report("a collective of rank " + std::to_string(comm.rank) + " after the communicator was finalized");
    return Result::invalid_usage;
  }
  comm.pending.push_back(std::move(launched_calls));
  comm.polls = static_cast<int>(random() % 3);
  return Result::in_progress;
}

void NcclCore::check_fit(const Meeting& meeting, int side, World& world) {
  for (int other = 0; other < meeting.sides(); ++other) {
    if (other == side || !meeting.joined(other)) continue;
    const std::string mine = words_of(meeting.call(side));
    const std::string theirs = words_of(meeting.call(other));
    if (mine == theirs) return;
    report("ranks differ in " + meeting.name() + ": rank " + std::to_string(side) + " has " + mine + ", rank " +
           std::to_string(other) + " has " + theirs);
    for (const auto& each : world.ranks) {
      each->error = Result::internal_error;
      each->text = "ranks differ in " + meeting.name();
    }
    return;
  }
}

Part NcclCore::join(SimulatedComm& comm, NcclCall call) {
  if (call.kind == CallKind::all_reduce) {
    call.algorithm = algorithm_of(comm, call);
    ++launched[*call.algorithm];
  }
  World& world = *comm.world;
  const std::size_t index = comm.meetings++;
  if (index == world.meetings.size()) {
    world.meetings.push_back(std::make_shared<Meeting>(
        "collective " + std::to_string(index) + " of communicator " + std::to_string(world.number),
        static_cast<int>(world.ranks.size())));
  }
  const auto meeting = world.meetings[index];
  meeting->join(comm.rank, call);
  check_fit(*meeting, comm.rank, world);
  if (comm.error != Result::success) meeting->spoil();
  return {meeting, comm.rank, call};
}

// A group is one operation in its stream.
void NcclCore::launch(SimulatedComm& comm, PendingLaunch group) {
  const auto parts = std::make_shared<std::vector<Part>>();
  for (NcclCall& call : group.calls) parts->push_back(join(comm, call));
  const auto self = std::find_if(comms.begin(), comms.end(), [&](const auto& each) { return each.get() == &comm; });
  Operation operation;
  operation.what = std::string(name_of(group.calls[0].kind)) + " (launch " + std::to_string(comm.launches) +
                   " of rank " + std::to_string(comm.rank) + " in communicator " + std::to_string(comm.world->number) +
                   ")";
  for (const NcclCall& call : group.calls) {
    const Extent extent = extent_of(call, comm.rank, static_cast<int>(comm.world->ranks.size()));
    operation.ranges.push_back({call.in, extent.in, Access::read});
    operation.ranges.push_back({call.out, extent.out, Access::write});
  }
  operation.ranges.push_back({comm.token, 1, Access::write});
  operation.arrived = [parts] {
    for (const Part& part : *parts) part.meeting->arrive(part.side);
  };
  operation.ready = [parts, own = *self] {
    return own->life == SimulatedComm::Life::aborted ||
           std::all_of(parts->begin(), parts->end(), [](const Part& part) { return part.meeting->ready(); });
  };
  const std::size_t number = comm.launches++;
  operation.run = [parts, number, own = *self] {
    own->queued.erase(number);
    if (own->life == SimulatedComm::Life::aborted) return;
    for (const Part& part : *parts) part.meeting->run(part.side);
  };
  operation.waits_on = [parts, own = *self] {
    std::vector<OperationId> found;
    if (own->life == SimulatedComm::Life::aborted) return found;
    for (const Part& part : *parts) part.meeting->wait_list(part.side, found);
    return found;
  };
  operation.meets = [parts] {
    std::vector<OperationId> found;
    for (const Part& part : *parts) part.meeting->add_ids(found);
    return found;
  };
  operation.missing = [parts] {
    std::string text;
    for (const Part& part : *parts) text += part.meeting->missing();
    return text;
  };
  comm.queued[number] = operation.ranges;
  const OperationId id = device.enqueue(group.stream, std::move(operation));
  for (const Part& part : *parts) part.meeting->enqueued(part.side, id);
}

void NcclCore::abort(SimulatedComm& comm) {
  comm.life = SimulatedComm::Life::aborted;
  comm.pending.clear();
  for (const auto& meeting : comm.world->meetings) meeting->leave(comm.rank);
  device.changed();
}

Result NcclCore::deregister_buffer(SimulatedComm& comm, void* buffer) {
  const std::size_t bytes = memory.contains(buffer) ? memory.at(buffer) : 0;
  for (const auto& [launch, ranges] : comm.queued) {
    for (const Range& used : ranges) {
      if (overlap(used, buffer, bytes)) {
        report("deregister_buffer: launch " + std::to_string(launch) + " still uses the memory");
      }
    }
  }
  if (comm.registered.erase(buffer) == 0) report("deregister_buffer: of memory that is not registered");
  if (comm.life == SimulatedComm::Life::finalizing) report("deregister_buffer: the communicator was finalized before");
  return Result::success;
}

}  // namespace kolo::test

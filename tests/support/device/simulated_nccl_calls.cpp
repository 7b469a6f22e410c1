// The table of the simulated NCCL: each function finds the installed core, takes the device's lock and does its work.
#include <cstring>

#include "support/device/nccl_core.h"

namespace kolo::test {
namespace {

using nccl::Comm;
using nccl::Op;
using nccl::Result;
using nccl::Type;

std::shared_ptr<NcclCore>& installed() {
  static std::shared_ptr<NcclCore> core;
  return core;
}

// A thread's group, as it is being put together.
struct Group {
  int depth = 0;
  std::vector<std::pair<Comm, PendingLaunch>> launches;  // in the order of their first calls
  Result error = Result::success;
};
Group& group() {
  thread_local Group own;
  return own;
}

template <class Body>
Result call(const char* name, const Body& body) {
  const auto core = installed();
  if (core == nullptr) return Result::internal_error;
  const auto held = core->device.lock();
  const Result result = core->enter(name);
  return result == Result::success ? body(*core) : result;
}

// The same for a call on a communicator.
template <class Body>
Result on(const char* name, Comm comm, const Body& body) {
  return call(name, [&](NcclCore& core) {
    SimulatedComm* const found = core.find(comm, name);
    return found == nullptr ? Result::invalid_argument : body(core, *found);
  });
}

Result end_group(NcclCore& core) {
  Group mine = std::exchange(group(), {});
  Result result = mine.error;
  for (auto& [comm, launch] : mine.launches) {
    SimulatedComm* const found = core.find(comm, "group_end");
    const Result submitted = found == nullptr ? Result::invalid_argument : core.submit(*found, std::move(launch));
    if (result == Result::success || result == Result::in_progress) result = submitted;
  }
  return result;
}

Result add_call(NcclCore& core, Comm comm, const NcclCall& added, cuda::StreamHandle stream) {
  Group& mine = group();
  if (added.count == 0) return Result::success;
  if (mine.launches.empty() || mine.launches.back().first != comm) mine.launches.push_back({comm, {stream, {}}});
  PendingLaunch& launch = mine.launches.back().second;
  if (launch.stream != stream) core.report("one group of a communicator in two streams");
  launch.calls.push_back(added);
  return mine.depth == 0 ? end_group(core) : Result::success;
}

Result collective(const char* name, Comm comm, const NcclCall& added, cuda::StreamHandle stream) {
  const Result result =
      on(name, comm, [&](NcclCore& core, SimulatedComm&) { return add_call(core, comm, added, stream); });
  if (result != Result::success && result != Result::in_progress)
    group().error = group().depth > 0 ? result : Result::success;
  return result;
}

NcclCall describe(CallKind kind, const void* in, void* out, std::size_t count, Type type) {
  return {kind, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, Op::sum, 0, {}};
}

bool device_taken(const World& world, int device) {
  for (const auto& each : world.ranks) {
    if (each != nullptr && each->wanted_device == device) return true;
  }
  return false;
}

Result init(Comm* comm, int ranks, nccl::UniqueId id, int rank, nccl::CommConfig* config) {
  *comm = nullptr;
  return call("init", [&](NcclCore& core) {
    if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0) {
      core.report("init: only communicators that do not block are simulated");
      return Result::invalid_argument;
    }
    auto& world = core.worlds[std::string(id.bytes, sizeof(id.bytes))];
    if (world == nullptr) {
      world = std::make_shared<World>();
      world->number = ++core.world_count;
      world->ranks.resize(static_cast<std::size_t>(ranks));
    }
    const auto at = static_cast<std::size_t>(rank);
    if (world->ranks.size() != static_cast<std::size_t>(ranks) || at >= world->ranks.size() || world->ranks[at]) {
      core.report("init: rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " does not fit the others");
      return Result::invalid_argument;
    }
    int device = -1;
    if (core.device.api().get_device(&device) != cuda::kSuccess) return Result::unhandled_cuda_error;
    if (!core.options.duplicate_devices && device_taken(*world, device)) {
      core.report("init: two ranks on device " + std::to_string(device));
      return Result::invalid_usage;
    }
    const auto made = core.add_comm();
    made->wanted_device = device;
    core.place(made, world, rank);
    *comm = made.get();
    return Result::in_progress;
  });
}

Result finalize(Comm comm) {
  return on("finalize", comm, [](NcclCore& core, SimulatedComm& found) {
    if (found.life != SimulatedComm::Life::live) core.report("finalize: a second time");
    if (core.state(found) != Result::success) return core.state(found);
    found.life = SimulatedComm::Life::finalizing;
    return Result::in_progress;
  });
}

// What is still queued would make the real one wait; here that is a violation, and nothing of it is carried out.
Result destroy(Comm comm) {
  return on("destroy", comm, [](NcclCore& core, SimulatedComm& found) {
    if (found.life != SimulatedComm::Life::finalizing || core.state(found) != Result::success) {
      core.report("destroy: before it was finalized");
      core.abort(found);
    } else {
      if (!found.registered.empty()) core.report("destroy: buffers are still registered");
      found.life = SimulatedComm::Life::destroyed;
    }
    return Result::success;
  });
}

Result abort(Comm comm) {
  return on("abort", comm, [](NcclCore& core, SimulatedComm& found) {
    core.abort(found);
    return Result::success;
  });
}

Result async_error(Comm comm, Result* error) {
  return on("async_error", comm, [&](NcclCore& core, SimulatedComm& found) {
    core.device.run_some();
    *error = core.state(found);
    return Result::success;
  });
}

Result group_start() {
  ++group().depth;
  return Result::success;
}

Result group_end() {
  Group& mine = group();
  if (mine.depth == 0) return Result::invalid_usage;
  if (--mine.depth != 0) return Result::success;
  return call("group_end", [](NcclCore& core) { return end_group(core); });
}

Result all_reduce(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                  cuda::StreamHandle stream) {
  NcclCall added = describe(CallKind::all_reduce, in, out, count, type);
  added.op = op;
  return collective("all_reduce", comm, added, stream);
}

Result broadcast(const void* in, void* out, std::size_t count, Type type, int root, Comm comm,
                 cuda::StreamHandle stream) {
  NcclCall added = describe(CallKind::broadcast, in, out, count, type);
  added.root = root;
  return collective("broadcast", comm, added, stream);
}

Result reduce(const void* in, void* out, std::size_t count, Type type, Op op, int root, Comm comm,
              cuda::StreamHandle stream) {
  NcclCall added = describe(CallKind::reduce, in, out, count, type);
  added.op = op;
  added.root = root;
  return collective("reduce", comm, added, stream);
}

Result all_gather(const void* in, void* out, std::size_t count, Type type, Comm comm, cuda::StreamHandle stream) {
  return collective("all_gather", comm, describe(CallKind::all_gather, in, out, count, type), stream);
}

Result reduce_scatter(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                      cuda::StreamHandle stream) {
  NcclCall added = describe(CallKind::reduce_scatter, in, out, count, type);
  added.op = op;
  return collective("reduce_scatter", comm, added, stream);
}

Result allocate(void** memory, std::size_t bytes) {
  return call("allocate", [&](NcclCore& core) {
    if (core.device.api().allocate(memory, bytes) != cuda::kSuccess) return Result::unhandled_cuda_error;
    core.memory[*memory] = bytes;
    return Result::success;
  });
}

Result release(void* memory) {
  return call("release", [&](NcclCore& core) {
    if (core.memory.erase(memory) == 0) core.report("release of memory that is not NCCL's");
    for (const auto& each : core.comms) {
      if (!each->ended() && each->registered.contains(memory)) core.report("release of memory that is registered");
    }
    return core.device.api().release(memory) == cuda::kSuccess ? Result::success : Result::unhandled_cuda_error;
  });
}

Result register_buffer(Comm comm, void* memory, std::size_t, void** handle) {
  return on("register_buffer", comm, [&](NcclCore&, SimulatedComm& found) {
    found.registered.insert(memory);
    *handle = memory;
    return Result::success;
  });
}

Result deregister_buffer(Comm comm, void* handle) {
  return on("deregister_buffer", comm,
            [&](NcclCore& core, SimulatedComm& found) { return core.deregister_buffer(found, handle); });
}

Result version(int* version) {
  return call("version", [&](NcclCore& core) {
    *version = core.options.version;
    return Result::success;
  });
}

Result unique_id(nccl::UniqueId* id) {
  return call("unique_id", [&](NcclCore& core) {
    *id = {};
    const std::string text = "simulated " + std::to_string(++core.ids);
    std::memcpy(id->bytes, text.data(), text.size());
    return Result::success;
  });
}

const char* error_text(Result result) {
  constexpr const char* kTexts[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return kTexts[static_cast<std::size_t>(result)];
}

const char* last_error(Comm comm) {
  const auto core = installed();
  if (core == nullptr) return "";
  const auto held = core->device.lock();
  for (const auto& each : core->comms) {
    if (each.get() == comm) return each->text.c_str();
  }
  return "";
}

}  // namespace

void install(std::shared_ptr<NcclCore> core) { installed() = std::move(core); }

nccl::NcclApi simulated_nccl_api() {
  return {.version = version,
          .unique_id = unique_id,
          .error_text = error_text,
          .last_error = last_error,
          .init = init,
          .finalize = finalize,
          .destroy = destroy,
          .abort_comm = abort,
          .async_error = async_error,
          .group_start = group_start,
          .group_end = group_end,
          .all_reduce = all_reduce,
          .broadcast = broadcast,
          .reduce = reduce,
          .all_gather = all_gather,
          .reduce_scatter = reduce_scatter,
          .allocate = allocate,
          .release = release,
          .register_buffer = register_buffer,
          .deregister_buffer = deregister_buffer};
}

}  // namespace kolo::test

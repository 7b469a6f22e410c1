// The table of calls, continued: memory, copies and kernels.
#include <cstring>
#include <utility>

#include "support/device/api_call.h"

namespace kolo::test {
namespace {

using cuda::Status;

Status allocate(void** memory, std::size_t bytes) {
  return unsafe_call("allocate", [&](DeviceCore& core, Held&) {
    *memory = nullptr;
    const int device = core.current_device();
    if (core.memory.live_bytes(MemoryKind::device, device) + bytes > core.options.memory) return kOutOfMemory;
    if (bytes != 0) *memory = core.memory.allocate(MemoryKind::device, device, bytes);
    return cuda::kSuccess;
  });
}

Status release(void* memory) {
  return unsafe_call("release",
                     [&](DeviceCore& core, Held&) { return core.release(memory, MemoryKind::device, "release"); });
}

Status allocate_pinned(void** memory, std::size_t bytes, unsigned) {
  return unsafe_call("allocate_pinned", [&](DeviceCore& core, Held&) {
    *memory = bytes == 0 ? nullptr : core.memory.allocate(MemoryKind::pinned, -1, bytes);
    return cuda::kSuccess;
  });
}

Status release_pinned(void* memory) {
  return unsafe_call("release_pinned", [&](DeviceCore& core, Held&) {
    return core.release(memory, MemoryKind::pinned, "release_pinned");
  });
}

Status register_host(void* memory, std::size_t bytes, unsigned) {
  return unsafe_call("register_host", [&](DeviceCore& core, Held&) {
    if (memory == nullptr || bytes == 0) return kInvalidValue;
    return core.memory.add_registered(memory, bytes) ? cuda::kSuccess : kAlreadyRegistered;
  });
}

Status unregister_host(void* memory) {
  return unsafe_call("unregister_host", [&](DeviceCore& core, Held&) {
    if (memory == nullptr) return kInvalidValue;
    return core.release(memory, MemoryKind::registered, "unregister_host");
  });
}

// A copy's or fill's memory may be of any device; one side at least has to be of the stream's, or of the host.
bool of_this_device(DeviceCore& core, const std::vector<Range>& ranges, int device) {
  for (const Range& range : ranges) {
    const Block* const block = core.memory.find(range.memory);
    if (block == nullptr || block->kind != MemoryKind::device || block->device == device) return true;
  }
  return false;
}

Status enqueue_transfer(DeviceCore& core, cuda::StreamHandle handle, Operation operation) {
  const std::vector<Range> ranges = operation.ranges;
  const char* const what = operation.ranges.size() == 2 ? "copy" : "fill";
  Entry* const entry = core.enqueue(handle, std::move(operation), what);
  if (entry == nullptr) return kInvalidHandle;
  for (const Range& range : ranges) {
    if (!core.memory.usable(range, -1, *entry->what)) entry->broken = true;
  }
  if (entry->broken) return kInvalidValue;
  const int device = core.stream(handle, what)->device;
  if (!of_this_device(core, ranges, device)) {
    core.report(Fault::wrong_device, *entry->what + ", whose memory is of another device");
  }
  return cuda::kSuccess;
}

// What the host finds where a copy is still to arrive: nothing that it could take for data.
void spoil_destination(DeviceCore& core, const Range& to) {
  constexpr int kInFlightByte = 0xdb;
  const Block* const block = core.memory.find(to.memory);
  const bool host = block != nullptr && (block->kind == MemoryKind::pinned || block->kind == MemoryKind::registered);
  const bool pinned = host && core.memory.usable(to, -1, "copy");
  if (pinned && core.streams.queued_on(to).empty()) {
    std::memset(const_cast<void*>(to.memory), kInFlightByte, to.bytes);
  }
}

Status copy(void* to, const void* from, std::size_t bytes, cuda::CopyKind kind, cuda::StreamHandle stream) {
  return call("copy", [&](DeviceCore& core, Held&) {
    if (bytes == 0) return cuda::kSuccess;
    const Range out{to, bytes, Access::write};
    if (kind == cuda::CopyKind::host_to_device && core.memory.find(from) == nullptr) {  // pageable: taken at once
      const auto* const begin = static_cast<const std::byte*>(from);
      Operation late{.what = "copy of pageable memory", .ranges = {out}};
      late.run = [to, taken = std::vector<std::byte>(begin, begin + bytes)] {
        std::memcpy(to, taken.data(), taken.size());
      };
      return enqueue_transfer(core, stream, std::move(late));
    }
    spoil_destination(core, out);
    Operation operation{.what = "copy", .ranges = {out, {from, bytes, Access::read}}};
    operation.run = [to, from, bytes] { std::memmove(to, from, bytes); };
    return enqueue_transfer(core, stream, std::move(operation));
  });
}

Status fill(void* memory, int value, std::size_t bytes, cuda::StreamHandle stream) {
  return call("fill", [&](DeviceCore& core, Held&) {
    if (bytes == 0) return cuda::kSuccess;
    Operation operation{.what = "fill", .ranges = {{memory, bytes, Access::write}}};
    operation.run = [memory, value, bytes] { std::memset(memory, value, bytes); };
    return enqueue_transfer(core, stream, std::move(operation));
  });
}

Status load_library(cuda::LibraryHandle* library, const void* image, void*, void**, unsigned, void*, void**, unsigned) {
  return call("load_library", [&](DeviceCore& core, Held&) {
    if (image == nullptr) return core.bad(Fault::bad_call, "load_library without an image", kInvalidValue);
    *library = core.libraries.emplace_back(std::make_unique<int>(0)).get();
    return cuda::kSuccess;
  });
}

Status unload_library(cuda::LibraryHandle library) {
  return call("unload_library", [&](DeviceCore& core, Held&) {
    const auto gone = std::erase_if(core.libraries, [&](const auto& each) { return each.get() == library; });
    if (gone != 0) return cuda::kSuccess;
    return core.bad(Fault::bad_handle, "unload_library: a library that does not exist (any more)", kInvalidHandle);
  });
}

Status get_kernel(cuda::KernelHandle* kernel, cuda::LibraryHandle library, const char* name) {
  return call("get_kernel", [&](DeviceCore& core, Held&) {
    bool loaded = false;
    for (const auto& each : core.libraries) loaded = loaded || each.get() == library;
    if (!loaded) return core.bad(Fault::bad_handle, "get_kernel: a library that does not exist", kInvalidHandle);
    const auto found = core.kernels.find(std::string_view(name));
    if (found == core.kernels.end()) return kSymbolNotFound;
    *kernel = found->second.get();
    return cuda::kSuccess;
  });
}

std::string wrong_launch(const SimulatedKernel& kernel, cuda::Dim3 grid, cuda::Dim3 block) {
  const bool flat = grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1;
  if (flat && grid.x >= 1 && grid.x <= 0x7fffffffU && block.x >= 1 && block.x <= 1024) return {};
  return "kernel " + kernel.name + ": no device runs " + std::to_string(grid.x) + " blocks of " +
         std::to_string(block.x) + " threads, or kolo has no kernel of more dimensions than one";
}

Status launch(const void* handle, cuda::Dim3 grid, cuda::Dim3 block, void** arguments, std::size_t,
              cuda::StreamHandle stream_handle) {
  return call("launch", [&](DeviceCore& core, Held&) {
    SimulatedKernel* kernel = nullptr;
    for (const auto& [name, each] : core.kernels) kernel = each.get() == handle ? each.get() : kernel;
    if (kernel == nullptr) return core.bad(Fault::bad_handle, "launch: a kernel that does not exist", kInvalidHandle);
    if (const std::string wrong = wrong_launch(*kernel, grid, block); !wrong.empty()) {
      return core.bad(Fault::bad_call, wrong, kInvalidConfiguration);
    }
    const SimulatedStream* const stream = core.stream(stream_handle, "launch");
    if (stream == nullptr) return kInvalidHandle;
    if (stream->device != core.current_device()) {
      return core.bad(Fault::wrong_device,
                      "kernel " + kernel->name + " is launched into a stream of device " +
                          std::to_string(stream->device) + " while the current device is " +
                          std::to_string(core.current_device()),
                      kInvalidHandle);
    }
    const auto* const begin = static_cast<const std::byte*>(arguments[0]);
    const auto taken = std::make_shared<std::vector<std::byte>>(begin, begin + kernel->argument_bytes);
    Operation operation{.what = "kernel " + kernel->name};
    operation.run = [kernel, taken, blocks = grid.x, threads = block.x] {
      kernel->body(taken->data(), blocks, threads);
    };
    Entry* const entry = core.enqueue(stream_handle, std::move(operation), "launch");
    entry->kernel = true;
    if (kernel->ranges) entry->late_ranges = [kernel, taken] { return kernel->ranges(taken->data()); };
    ++kernel->launches;
    return cuda::kSuccess;
  });
}

}  // namespace

void add_transfers(cuda::RuntimeApi& api) {
  api.allocate = allocate;
  api.release = release;
  api.allocate_pinned = allocate_pinned;
  api.release_pinned = release_pinned;
  api.register_host = register_host;
  api.unregister_host = unregister_host;
  api.copy = copy;
  api.fill = fill;
  api.load_library = load_library;
  api.unload_library = unload_library;
  api.get_kernel = get_kernel;
  api.launch = launch;
}

}  // namespace kolo::test

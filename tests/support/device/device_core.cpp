#include "support/device/device_core.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace kolo::test {
namespace {

std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Calls that make no context on the current device. `set_device` makes one on the device that it names.
bool asks_only(std::string_view call) {
  constexpr std::string_view kAsking[] = {"runtime_version", "driver_version", "take_last_error",  "device_count",
                                          "get_device",      "set_device",     "device_attribute", "device_properties",
                                          "pci_bus_id",      "device_at",      "peer_attribute",   "context_state"};
  return std::ranges::find(kAsking, call) != std::end(kAsking);
}

}  // namespace

DeviceCore::DeviceCore(const DeviceOptions& given)
    : options(given),
      memory([this](Fault fault, std::string text) { report(fault, std::move(text)); }),
      streams(given, memory, [this](Fault fault, std::string text) { report(fault, std::move(text)); }),
      generation(next_generation()) {}

void DeviceCore::report(Fault fault, std::string text) {
  constexpr std::size_t kEnough = 100;  // of them says what is wrong
  if (++reported <= kEnough) violations.push_back({fault, std::move(text)});
  if (fault == Fault::deadlock) deadlocked = true;
}

cuda::Status DeviceCore::enter(const std::string& call) {
  ++calls[call];
  if (!asks_only(call)) contexts.insert(current_device());
  const auto failure = failures.find(call);
  if (failure == failures.end() || failure->second.times == 0) return cuda::kSuccess;
  if (failure->second.times > 0) --failure->second.times;
  return failure->second.status;
}

int& DeviceCore::current_device() const {
  struct Current {
    std::uint64_t generation = 0;
    int device = 0;
  };
  thread_local Current current;
  if (current.generation != generation) current = {generation, 0};
  return current.device;
}

SimulatedStream* DeviceCore::stream(cuda::StreamHandle handle, const char* call) {
  SimulatedStream* const found = streams.find(handle, current_device());
  if (found == nullptr) report(Fault::bad_handle, std::string(call) + ": a stream that does not exist (any more)");
  return found;
}

SimulatedEvent* DeviceCore::event(cuda::EventHandle handle, const char* call) {
  const auto found = events.find(handle);
  if (found != events.end() && !found->second->destroyed) return found->second.get();
  report(Fault::bad_handle, std::string(call) + ": an event that does not exist (any more)");
  return nullptr;
}

Entry* DeviceCore::enqueue(cuda::StreamHandle handle, Operation operation, const char* call) {
  SimulatedStream* const into = stream(handle, call);
  if (into == nullptr) return nullptr;
  Entry& entry = streams.enqueue(*into, std::move(operation));
  moved();
  return &entry;
}

void DeviceCore::find_deadlock() {
  if (searched_at_ == moves || !streams.stuck()) return;
  searched_at_ = moves;
  if (const std::string circle = streams.new_circle(); !circle.empty()) {
    report(Fault::deadlock, "operations wait for each other:" + circle);
  }
}

cuda::Status DeviceCore::query(const std::vector<Point>& points, const Clock& clock, bool blocking) {
  if (streams.run_some() != 0) moved();
  const bool passed =
      std::all_of(points.begin(), points.end(), [this](const Point& point) { return streams.done(point); });
  if (passed) {
    streams.host_knows(clock, blocking || options.polls_order);
    return cuda::kSuccess;
  }
  find_deadlock();
  return streams.in_circle() && streams.stuck() ? kDeadlocked : cuda::kNotReady;
}

cuda::Status DeviceCore::wait(std::unique_lock<std::recursive_mutex>& held, const std::vector<Point>& points,
                              const Clock& clock) {
  for (;;) {
    const cuda::Status status = query(points, clock, true);
    if (status != cuda::kNotReady) return status;
    if (!streams.stuck()) continue;
    const std::uint64_t before = moves;
    if (change.wait_for(held, options.patience, [&] { return moves != before; })) continue;
    report(Fault::deadlock, "nothing happens any more:" + streams.what_waits());
    return kDeadlocked;
  }
}

cuda::Status DeviceCore::release(void* released, MemoryKind kind, const char* call) {
  if (released == nullptr) return cuda::kSuccess;
  const Block* const block = memory.find(released);
  if (block != nullptr && !block->released) {
    const Range range{block->data, block->bytes, Access::write};
    std::vector<std::string> users = memory.in_flight(range, streams.host());
    for (auto& each : streams.queued_on(range, true)) users.push_back(std::move(each));
    if (!users.empty()) {
      report(Fault::released_in_use,
             std::string(call) + " of " + block->name + ", although the host has not seen the end of " + users.front());
    }
  }
  if (memory.release(released, kind)) return cuda::kSuccess;
  return bad(Fault::bad_memory, std::string(call) + " of memory that it did not allocate, or has released already",
             kInvalidValue);
}

void DeviceCore::host_uses(const Range& range) {
  const std::string verb = range.access == Access::write ? "the host writes " : "the host reads ";
  const Block* const block = memory.find(range.memory);
  if (block == nullptr || (block->kind != MemoryKind::pinned && block->kind != MemoryKind::registered)) {
    report(Fault::bad_memory, verb + memory.describe(range) + ", which is not pinned memory");
    return;
  }
  if (!memory.usable(range, -1, "not a device: " + verb)) return;
  std::vector<std::string> users = memory.in_flight(range, streams.host());
  for (auto& each : streams.queued_on(range)) users.push_back(std::move(each));
  if (!users.empty()) {
    report(Fault::host_race, verb + memory.describe(range) + " before it has seen the end of " + users.front());
  }
}

bool DeviceCore::drain() {
  streams.run_all();
  moved();
  if (streams.queued() == 0) {
    streams.host_knows(streams.everything());
    return true;
  }
  find_deadlock();
  if (!deadlocked) report(Fault::deadlock, "nothing can run:" + streams.what_waits());
  return false;
}

}  // namespace kolo::test

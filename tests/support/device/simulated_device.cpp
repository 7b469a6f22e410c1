#include "support/device/simulated_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "support/device/device_core.h"

namespace kolo::test {

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::bad_memory:
      return "bad memory";
    case Fault::outside_memory:
      return "outside memory";
    case Fault::race:
      return "race";
    case Fault::host_race:
      return "host race";
    case Fault::unrecorded_event:
      return "unrecorded event";
    case Fault::released_in_use:
      return "released in use";
    case Fault::wrong_device:
      return "wrong device";
    case Fault::bad_handle:
      return "bad handle";
    case Fault::bad_call:
      return "bad call";
    case Fault::broken_capture:
      return "broken capture";
    case Fault::deadlock:
      return "deadlock";
  }
  return "?";
}

SimulatedDevice::SimulatedDevice(const DeviceOptions& options) : core_(std::make_shared<DeviceCore>(options)) {
  install(core_);
}

SimulatedDevice::~SimulatedDevice() {
  install(nullptr);
  const auto held = lock();
  core_->streams.run_all();
  if (core_->streams.queued() != 0 && !core_->deadlocked) core_->drain();
  core_->memory.check_guards("something", true);
  for (const Violation& each : core_->violations) {
    ADD_FAILURE() << "simulated device, seed " << core_->options.seed << ": " << fault_name(each.fault) << ": "
                  << each.text;
  }
}

cuda::RuntimeApi SimulatedDevice::api() const { return simulated_api(); }

void SimulatedDevice::write(void* memory, const void* from, std::size_t bytes) {
  const auto held = lock();
  if (core_->memory.usable({memory, bytes, Access::write}, -1, "the test")) std::memcpy(memory, from, bytes);
}

void SimulatedDevice::peek(void* to, const void* memory, std::size_t bytes) const {
  const auto held = lock();
  if (core_->memory.usable({memory, bytes, Access::read}, -1, "the test")) std::memcpy(to, memory, bytes);
}

void SimulatedDevice::host_reads(const void* memory, std::size_t bytes) {
  const auto held = lock();
  core_->host_uses({memory, bytes, Access::read});
}

void SimulatedDevice::host_writes(const void* memory, std::size_t bytes) {
  const auto held = lock();
  core_->host_uses({memory, bytes, Access::write});
}

void SimulatedDevice::add_kernel(std::string name, std::size_t argument_bytes, KernelBody body, KernelRanges ranges) {
  const auto held = lock();
  auto& kernel = core_->kernels[name];  // an earlier one of this name stays where it is: handles point to it
  if (kernel == nullptr) kernel = std::make_unique<SimulatedKernel>();
  *kernel = {std::move(name), argument_bytes, std::move(body), std::move(ranges), 0};
}

OperationId SimulatedDevice::enqueue(cuda::StreamHandle stream, Operation operation) {
  const auto held = lock();
  const std::string what = operation.what;
  const std::vector<Range> ranges = operation.ranges;
  Entry* const entry = core_->enqueue(stream, std::move(operation), what.c_str());
  if (entry == nullptr) return 0;
  const int device = core_->stream(stream, what.c_str())->device;
  for (const Range& range : ranges) {
    if (!core_->memory.usable(range, device, *entry->what)) entry->broken = true;
  }
  return operation_id(entry->point);
}

void* SimulatedDevice::token(std::string what) {
  const auto held = lock();
  return core_->memory.allocate(MemoryKind::token, -1, 1, std::move(what));
}

std::unique_lock<std::recursive_mutex> SimulatedDevice::lock() const {
  return std::unique_lock<std::recursive_mutex>(core_->mutex);
}

void SimulatedDevice::changed() {
  const auto held = lock();
  core_->streams.forget_circles();
  core_->moved();
}

void SimulatedDevice::report(Fault fault, std::string text) {
  const auto held = lock();
  core_->report(fault, std::move(text));
}

void SimulatedDevice::pass_time(std::chrono::nanoseconds time) {
  const auto held = lock();
  core_->streams.pass_time(time);
}

void SimulatedDevice::set_polls_order(bool order) {
  const auto held = lock();
  core_->options.polls_order = order;
}

void SimulatedDevice::run_some() {
  const auto held = lock();
  static_cast<void>(core_->query({}, {}));
}

bool SimulatedDevice::drain() {
  const auto held = lock();
  return core_->drain();
}

std::size_t SimulatedDevice::queued() const {
  const auto held = lock();
  return core_->streams.queued();
}

void SimulatedDevice::fail(const std::string& call, cuda::Status status, int times) {
  const auto held = lock();
  core_->failures[call] = {status, times};
}

int SimulatedDevice::calls(std::string_view call) const {
  const auto held = lock();
  const auto found = core_->calls.find(call);
  return found == core_->calls.end() ? 0 : found->second;
}

int SimulatedDevice::launches(std::string_view kernel) const {
  const auto held = lock();
  const auto found = core_->kernels.find(kernel);
  return found == core_->kernels.end() ? 0 : found->second->launches;
}

std::size_t SimulatedDevice::device_bytes(int device) const {
  const auto held = lock();
  return core_->memory.live_bytes(MemoryKind::device, device);
}

std::size_t SimulatedDevice::pinned_bytes() const {
  const auto held = lock();
  return core_->memory.live_bytes(MemoryKind::pinned, -1) + core_->memory.live_bytes(MemoryKind::registered, -1);
}

std::set<int> SimulatedDevice::contexts() const {
  const auto held = lock();
  return core_->contexts;
}

int SimulatedDevice::live_streams() const {
  const auto held = lock();
  return core_->streams.live();
}

int SimulatedDevice::live_events() const {
  const auto held = lock();
  int sum = 0;
  for (const auto& [handle, event] : core_->events) sum += event->destroyed ? 0 : 1;
  return sum;
}

int SimulatedDevice::timed_events() const {
  const auto held = lock();
  int sum = 0;
  for (const auto& [handle, event] : core_->events) sum += event->timed ? 1 : 0;
  return sum;
}

void SimulatedDevice::set_capturing(cuda::StreamHandle stream, bool capturing) {
  const auto held = lock();
  SimulatedStream* const found = core_->stream(stream, "set_capturing");
  if (found == nullptr || found->capturing == capturing) return;
  found->capturing = capturing;
  core_->captures[found->device] += capturing ? 1 : -1;
}

int SimulatedDevice::priority(cuda::StreamHandle stream) const {
  const auto held = lock();
  const SimulatedStream* const found = core_->stream(stream, "priority");
  return found == nullptr ? 1 : found->priority;
}

std::vector<Violation> SimulatedDevice::violations() const {
  const auto held = lock();
  return core_->violations;
}

std::vector<Violation> SimulatedDevice::take_violations() {
  const auto held = lock();
  return std::exchange(core_->violations, {});
}

}  // namespace kolo::test

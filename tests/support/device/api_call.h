#pragma once
// One call of the table, as every function of it makes it.
#include <memory>
#include <mutex>
#include <string>

#include "support/device/device_core.h"

namespace kolo::test {

[[nodiscard]] std::shared_ptr<DeviceCore> installed_core();  // null: none
void set_last_error(cuda::Status status);                    // the calling thread's, for take_last_error

using Held = std::unique_lock<std::recursive_mutex>;

// Counted, made to fail when a test wants it, its error kept for take_last_error. body(core, its lock).
template <class F>
cuda::Status call(const char* name, F&& body) {
  cuda::Status status = kNotInitialised;
  if (const auto core = installed_core()) {
    Held held(core->mutex);
    status = core->enter(name);
    if (status == cuda::kSuccess) status = body(*core, held);
  }
  if (status != cuda::kSuccess) set_last_error(status);
  return status;
}

// What the calling thread may do while a graph is captured; at first nothing that is unsafe.
[[nodiscard]] cuda::CaptureMode& capture_mode();

// A call that must not be made while a graph is captured on the current device, in whatever thread, unless the calling
// one says that it may. (Of whichever device, in truth; but here each device stands for a process.)
template <class F>
cuda::Status unsafe_call(const char* name, F&& body) {
  return call(name, [&](DeviceCore& core, Held& held) {
    const bool allowed = capture_mode() != cuda::CaptureMode::nothing_unsafe;
    if (allowed || core.captures[core.current_device()] == 0) return body(core, held);
    return core.bad(Fault::broken_capture, std::string(name) + " while a graph is captured, which is lost by it",
                    kCaptureUnsupported);
  });
}

// The members that allocate, move and compute; simulated_transfers.cpp.
void add_transfers(cuda::RuntimeApi& api);

}  // namespace kolo::test

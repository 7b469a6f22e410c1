#pragma once
// One call of the table, as every function of it makes it.
#include <memory>
#include <mutex>

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

// The members that allocate, move and compute; simulated_transfers.cpp.
void add_transfers(cuda::RuntimeApi& api);

}  // namespace kolo::test

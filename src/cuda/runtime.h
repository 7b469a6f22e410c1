#pragma once
// A process's CUDA runtime, and what every call to it needs: its errors as exceptions, and the right current device.
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "cuda/runtime_api.h"

namespace kolo::cuda {

// Shared by everything that was made with it. Immutable; thread-safe.
class Runtime {
 public:
  // `library` keeps alive what `api` points into. Throws BackendError where a call is missing from the table.
  explicit Runtime(const RuntimeApi& api, std::shared_ptr<void> library = {});

  [[nodiscard]] const RuntimeApi& api() const noexcept { return api_; }
  // 0 where there is no driver and no device.
  [[nodiscard]] int device_count() const noexcept;
  // BackendError: `call`, and the runtime's name and words for `status`. Not for kNotReady.
  void check(Status status, std::string_view call) const;
  [[nodiscard]] int attribute(Attribute attribute, int device) const;
  // Whether this process has used `device`; true where nobody knows.
  [[nodiscard]] bool has_context(int device) const noexcept;
  // One line for people: versions and devices, or why there are none.
  [[nodiscard]] std::string describe() const;

 private:
  RuntimeApi api_;
  std::shared_ptr<void> library_;
};

[[nodiscard]] std::string version_text(int version);  // CUDA's way: 12080 is "12.8"

using RuntimePtr = std::shared_ptr<const Runtime>;

// The runtime that this process has loaded already (torch's), else one that the loader finds. Throws BackendError that
// says what was looked for and what is wrong with what was found: none there, older than kolo needs.
[[nodiscard]] RuntimePtr load_runtime();

// The calling thread's current device from now on: for threads that work for one device only.
void use_device(const Runtime& runtime, int device);

// Makes `device` the calling thread's current one, and puts back what was, if this process has ever used that. Threads
// begin with device 0, and making it current would put a context there, some hundred MB of a device that is another
// rank's.
//
// Meanwhile the thread may ask and allocate although a graph is being captured, by its program in another thread, say:
// CUDA would take that for a mistake, and the graph would be lost.
class DeviceGuard {
 public:
  DeviceGuard(const Runtime& runtime, int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const Runtime& runtime_;
  int before_ = 0;
  bool changed_ = false;
  CaptureMode mode_ = CaptureMode::anything;  // the thread's while this is not
};

// For destructors: call(table) with `device` current. Nobody is left to be told of a failure.
template <class Release>
void release(const Runtime& runtime, int device, const Release& call) noexcept {
  try {
    const DeviceGuard guard(runtime, device);
    if (call(runtime.api()) != kSuccess) runtime.api().take_last_error();
  } catch (const std::exception&) {  // a device that answers no more
  }
}

}  // namespace kolo::cuda

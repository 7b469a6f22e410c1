#include "cuda/runtime.h"

#include <utility>

#include "cuda/runtime_calls.h"
#include "kolo/error.h"

namespace kolo::cuda {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Runtime::Runtime(const RuntimeApi& api, std::shared_ptr<void> library) : api_(api), library_(std::move(library)) {
  for_each_call(api_, [](const char* name, const auto& function) {
    if (function == nullptr) throw BackendError(std::string("the CUDA runtime has no ") + name);
  });
}

int Runtime::device_count() const noexcept {
  int count = 0;
  if (api_.device_count(&count) == kSuccess) return count;
  api_.take_last_error();
  return 0;
}

void Runtime::check(Status status, std::string_view call) const {
  if (status == kSuccess) return;
  // The runtime keeps it for whoever asks next, who would take it for an error of their own.
  api_.take_last_error();
  throw BackendError(std::string(call) + ": " + api_.error_name(status) + " (" + api_.error_text(status) + ")");
}

int Runtime::attribute(Attribute attribute, int device) const {
  int value = 0;
  check(api_.device_attribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

bool Runtime::has_context(int device) const noexcept {
  unsigned flags = 0;
  int active = 0;
  return api_.context_state == nullptr || api_.context_state(device, &flags, &active) != kSuccess || active != 0;
}

std::string Runtime::describe() const {
  int version = 0;
  check(api_.runtime_version(&version), "cudaRuntimeGetVersion");
  std::string text = "CUDA runtime " + version_text(version);
  check(api_.driver_version(&version), "cudaDriverGetVersion");
  text += version == 0 ? ", no driver" : ", driver for CUDA " + version_text(version);

  int count = 0;
  if (const Status status = api_.device_count(&count); status != kSuccess) {
    api_.take_last_error();
    return text + ", no devices: " + api_.error_name(status) + " (" + api_.error_text(status) + ")";
  }
  text += ", " + std::to_string(count) + (count == 1 ? " device" : " devices");
  for (int device = 0; device < count; ++device) {
    char bus[32] = "";
    check(api_.pci_bus_id(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
    text += (device == 0 ? ": " : "; ") + std::to_string(device) + " at " + bus + ", compute capability " +
            std::to_string(attribute(Attribute::compute_major, device)) + "." +
            std::to_string(attribute(Attribute::compute_minor, device)) + ", " +
            std::to_string(attribute(Attribute::multiprocessors, device)) + " multiprocessors";
  }
  return text;
}

void use_device(const Runtime& runtime, int device) {
  runtime.check(runtime.api().set_device(device), "cudaSetDevice(" + std::to_string(device) + ")");
}

DeviceGuard::DeviceGuard(const Runtime& runtime, int device) : runtime_(runtime) {
  runtime.check(runtime.api().get_device(&before_), "cudaGetDevice");
  changed_ = before_ != device;
  if (changed_) use_device(runtime, device);
  static_cast<void>(runtime.api().exchange_capture_mode(&mode_));
}

DeviceGuard::~DeviceGuard() {
  static_cast<void>(runtime_.api().exchange_capture_mode(&mode_));
  if (!changed_ || !runtime_.has_context(before_)) return;
  if (runtime_.api().set_device(before_) != kSuccess) runtime_.api().take_last_error();
}

}  // namespace kolo::cuda

// The table of calls, each on the core that is installed: devices, streams and events.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "support/device/api_call.h"

namespace kolo::test {
namespace {

using cuda::Status;

std::mutex installing;
std::shared_ptr<DeviceCore> the_core;
thread_local Status last_error = cuda::kSuccess;

Status runtime_version(int* version) {
  return call("runtime_version", [&](DeviceCore&, Held&) { return *version = 13000, cuda::kSuccess; });
}

Status driver_version(int* version) {
  return call("driver_version", [&](DeviceCore& core, Held&) {
    *version = core.options.devices == 0 ? 0 : 13000;  // 0: no driver
    return cuda::kSuccess;
  });
}

const char* error_name(Status status) {
  switch (status) {
    case cuda::kSuccess:
      return "cudaSuccess";
    case kInvalidValue:
      return "cudaErrorInvalidValue";
    case kOutOfMemory:
      return "cudaErrorMemoryAllocation";
    case kNotInitialised:
      return "cudaErrorInitializationError";
    case kInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case kNoDevice:
      return "cudaErrorNoDevice";
    case kInvalidDevice:
      return "cudaErrorInvalidDevice";
    case kInvalidHandle:
      return "cudaErrorInvalidResourceHandle";
    case kSymbolNotFound:
      return "cudaErrorSymbolNotFound";
    case cuda::kNotReady:
      return "cudaErrorNotReady";
    case kDeadlocked:
      return "cudaErrorLaunchTimeout";
    case kAlreadyRegistered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case kCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    default:
      return "cudaErrorUnknown";
  }
}

const char* error_text(Status status) {
  switch (status) {
    case cuda::kSuccess:
      return "no error";
    case kInvalidValue:
      return "invalid argument";
    case kOutOfMemory:
      return "out of memory";
    case kNotInitialised:
      return "no simulated device is installed";
    case kInvalidConfiguration:
      return "invalid configuration argument";
    case kNoDevice:
      return "no CUDA-capable device is detected";
    case kInvalidDevice:
      return "invalid device ordinal";
    case kInvalidHandle:
      return "invalid resource handle";
    case kSymbolNotFound:
      return "named symbol not found";
    case cuda::kNotReady:
      return "device not ready";
    case kDeadlocked:
      return "deadlock of the simulated device";
    default:
      return "an error that the test made";
  }
}

Status take_last_error() {
  static_cast<void>(call("take_last_error", [](DeviceCore&, Held&) { return cuda::kSuccess; }));
  return std::exchange(last_error, cuda::kSuccess);
}

Status device_count(int* count) {
  return call("device_count", [&](DeviceCore& core, Held&) {
    *count = core.options.devices;
    return core.options.devices == 0 ? kNoDevice : cuda::kSuccess;
  });
}

Status get_device(int* device) {
  return call("get_device", [&](DeviceCore& core, Held&) {
    if (core.options.devices == 0) return kNoDevice;
    *device = core.current_device();
    return cuda::kSuccess;
  });
}

Status set_device(int device) {
  return call("set_device", [&](DeviceCore& core, Held&) {
    if (device < 0 || device >= core.options.devices) return kInvalidDevice;
    core.current_device() = device;
    core.contexts.insert(device);
    return cuda::kSuccess;
  });
}

Status exchange_capture_mode(cuda::CaptureMode* mode) {
  std::swap(capture_mode(), *mode);
  return cuda::kSuccess;
}

Status context_state(int device, unsigned* flags, int* active) {
  return call("context_state", [&](DeviceCore& core, Held&) {
    if (device < 0 || device >= core.options.devices) return kInvalidDevice;
    *flags = 0;
    *active = core.contexts.contains(device) ? 1 : 0;
    return cuda::kSuccess;
  });
}

Status device_attribute(int* value, cuda::Attribute attribute, int device) {
  return call("device_attribute", [&](DeviceCore& core, Held&) {
    if (device < 0 || device >= core.options.devices) return kInvalidDevice;
    switch (attribute) {
      case cuda::Attribute::multiprocessors:
        *value = 4;
        return cuda::kSuccess;
      case cuda::Attribute::compute_major:
        *value = 9;
        return cuda::kSuccess;
      case cuda::Attribute::compute_minor:
        *value = 0;
        return cuda::kSuccess;
    }
    return kInvalidValue;
  });
}

Status device_properties(void* properties, int device) {
  return call("device_properties", [&](DeviceCore& core, Held&) {
    if (device < 0 || device >= core.options.devices) return kInvalidDevice;
    auto& written = *static_cast<cuda::DeviceProperties*>(properties);
    written = {};
    std::snprintf(written.name, sizeof written.name, "Simulated device");
    written.memory = core.options.memory;
    if (core.options.uuids) written.uuid[15] = static_cast<char>(device + 1);
    return cuda::kSuccess;
  });
}

std::string address_of(int device) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", device + 1);
  return text;
}

Status pci_bus_id(char* text, int length, int device) {
  return call("pci_bus_id", [&](DeviceCore& core, Held&) {
    if (device < 0 || device >= core.options.devices) return kInvalidDevice;
    const int written = std::snprintf(text, static_cast<std::size_t>(length), "%s", address_of(device).c_str());
    return written < length ? cuda::kSuccess : kInvalidValue;
  });
}

Status device_at(int* device, const char* pci_bus_id) {
  return call("device_at", [&](DeviceCore& core, Held&) {
    for (int each = 0; each < core.options.devices; ++each) {
      if (address_of(each) == pci_bus_id) return *device = each, cuda::kSuccess;
    }
    return kInvalidValue;
  });
}

Status peer_attribute(int* value, cuda::PeerAttribute attribute, int from, int to) {
  return call("peer_attribute", [&](DeviceCore& core, Held&) {
    const int devices = core.options.devices;
    if (from < 0 || from >= devices || to < 0 || to >= devices || from == to) return kInvalidDevice;
    const bool atomics = attribute == cuda::PeerAttribute::native_atomics;
    *value = core.options.peer_access && (!atomics || core.options.native_atomics) ? 1 : 0;
    return cuda::kSuccess;
  });
}

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

Status stream_priorities(int* least, int* greatest) {
  return call("stream_priorities", [&](DeviceCore&, Held&) {
    return *least = kLeastPriority, *greatest = kGreatestPriority, cuda::kSuccess;
  });
}

Status stream_create(cuda::StreamHandle* handle, unsigned flags, int priority) {
  return call("stream_create", [&](DeviceCore& core, Held&) {
    if (priority > kLeastPriority || priority < kGreatestPriority) {
      core.report(Fault::bad_call, "stream_create: there is no priority " + std::to_string(priority));
    }
    SimulatedStream& stream = core.streams.create(core.current_device(), (flags & cuda::kStreamNonBlocking) == 0);
    stream.priority = priority;
    *handle = &stream;
    return cuda::kSuccess;
  });
}

Status stream_destroy(cuda::StreamHandle handle) {
  return call("stream_destroy", [&](DeviceCore& core, Held&) {
    if (handle == nullptr) return core.bad(Fault::bad_handle, "stream_destroy: the default stream", kInvalidHandle);
    SimulatedStream* const stream = core.stream(handle, "stream_destroy");
    if (stream == nullptr) return kInvalidHandle;
    stream->destroyed = true;  // what is queued still runs
    return cuda::kSuccess;
  });
}

Status stream_query(cuda::StreamHandle handle) {
  return unsafe_call("stream_query", [&](DeviceCore& core, Held&) {
    const SimulatedStream* const stream = core.stream(handle, "stream_query");
    return stream == nullptr ? kInvalidHandle
                             : core.query(core.streams.pending(*stream), core.streams.clock_of(*stream));
  });
}

Status stream_synchronize(cuda::StreamHandle handle) {
  return unsafe_call("stream_synchronize", [&](DeviceCore& core, Held& held) {
    const SimulatedStream* const stream = core.stream(handle, "stream_synchronize");
    if (stream == nullptr) return kInvalidHandle;
    const Clock clock = core.streams.clock_of(*stream);  // as of now: others may enqueue meanwhile
    return core.wait(held, core.streams.pending(*stream), clock);
  });
}

Status stream_wait_event(cuda::StreamHandle handle, cuda::EventHandle event_handle, unsigned) {
  return call("stream_wait_event", [&](DeviceCore& core, Held&) {
    SimulatedStream* const stream = core.stream(handle, "stream_wait_event");
    const SimulatedEvent* const event = core.event(event_handle, "stream_wait_event");
    if (stream == nullptr || event == nullptr) return kInvalidHandle;
    if (event->point.position == 0) {
      core.report(Fault::unrecorded_event, "a stream is to wait for an event that was never recorded: it will not");
      return cuda::kSuccess;
    }
    core.streams.wait(*stream, *event);
    core.moved();
    return cuda::kSuccess;
  });
}

Status stream_is_capturing(cuda::StreamHandle handle, int* status) {
  return call("stream_is_capturing", [&](DeviceCore& core, Held&) {
    const SimulatedStream* const stream = core.stream(handle, "stream_is_capturing");
    if (stream == nullptr) return kInvalidHandle;
    *status = stream->capturing ? 1 : 0;
    return cuda::kSuccess;
  });
}

Status event_create(cuda::EventHandle* event, unsigned flags) {
  return call("event_create", [&](DeviceCore& core, Held&) {
    auto made = std::make_unique<SimulatedEvent>();
    made->device = core.current_device();
    made->timed = (flags & cuda::kEventDisableTiming) == 0;
    *event = made.get();
    core.events.emplace(*event, std::move(made));
    return cuda::kSuccess;
  });
}

Status event_destroy(cuda::EventHandle handle) {
  return call("event_destroy", [&](DeviceCore& core, Held&) {
    SimulatedEvent* const event = core.event(handle, "event_destroy");
    if (event == nullptr) return kInvalidHandle;
    event->destroyed = true;
    return cuda::kSuccess;
  });
}

Status event_record(cuda::EventHandle handle, cuda::StreamHandle stream_handle) {
  return call("event_record", [&](DeviceCore& core, Held&) {
    SimulatedEvent* const event = core.event(handle, "event_record");
    SimulatedStream* const stream = core.stream(stream_handle, "event_record");
    if (event == nullptr || stream == nullptr) return kInvalidHandle;
    if (event->device != stream->device) {
      return core.bad(Fault::wrong_device,
                      "an event of device " + std::to_string(event->device) + " is recorded in a stream of device " +
                          std::to_string(stream->device),
                      kInvalidHandle);
    }
    core.streams.record(*event, *stream);
    core.moved();
    return cuda::kSuccess;
  });
}

Status event_query(cuda::EventHandle handle) {
  return unsafe_call("event_query", [&](DeviceCore& core, Held&) {
    const SimulatedEvent* const event = core.event(handle, "event_query");
    if (event == nullptr) return kInvalidHandle;
    if (event->point.position == 0) {
      return core.bad(Fault::unrecorded_event, "an event that was never recorded is asked whether it has passed",
                      cuda::kSuccess);
    }
    return core.query({event->point}, event->clock);
  });
}

Status event_elapsed_time(float* milliseconds, cuda::EventHandle from_handle, cuda::EventHandle to_handle) {
  return unsafe_call("event_elapsed_time", [&](DeviceCore& core, Held&) {
    const SimulatedEvent* const from = core.event(from_handle, "event_elapsed_time");
    const SimulatedEvent* const to = core.event(to_handle, "event_elapsed_time");
    if (from == nullptr || to == nullptr) return kInvalidHandle;
    if (!from->timed || !to->timed || from->device != to->device) {
      return core.bad(Fault::bad_call, "event_elapsed_time: an event without timing, or two of different devices",
                      kInvalidHandle);
    }
    if (from->point.position == 0 || to->point.position == 0) {
      return core.bad(Fault::unrecorded_event, "an event that was never recorded is asked for its time",
                      kInvalidHandle);
    }
    Clock clock = from->clock;
    join(clock, to->clock);
    const Status status = core.query({from->point, to->point}, clock);
    if (status != cuda::kSuccess) return status;
    const SimulatedTime time = core.streams.end_of(to->point) - core.streams.end_of(from->point);
    *milliseconds = static_cast<float>(static_cast<double>(time.count()) / 1e6);
    return cuda::kSuccess;
  });
}

}  // namespace

std::shared_ptr<DeviceCore> installed_core() {
  const std::lock_guard held(installing);
  return the_core;
}

void set_last_error(Status status) { last_error = status; }

cuda::CaptureMode& capture_mode() {
  thread_local cuda::CaptureMode mode = cuda::CaptureMode::nothing_unsafe;
  return mode;
}

void install(std::shared_ptr<DeviceCore> core) {
  const std::lock_guard held(installing);
  if (core != nullptr && the_core != nullptr) {
    std::fprintf(stderr, "there is a simulated device already\n");
    std::abort();
  }
  the_core = std::move(core);
}

cuda::RuntimeApi simulated_api() {
  cuda::RuntimeApi api{.runtime_version = runtime_version,
                       .driver_version = driver_version,
                       .error_name = error_name,
                       .error_text = error_text,
                       .take_last_error = take_last_error,
                       .device_count = device_count,
                       .get_device = get_device,
                       .set_device = set_device,
                       .exchange_capture_mode = exchange_capture_mode,
                       .device_attribute = device_attribute,
                       .device_properties = device_properties,
                       .pci_bus_id = pci_bus_id,
                       .device_at = device_at,
                       .peer_attribute = peer_attribute,
                       .stream_priorities = stream_priorities,
                       .stream_create = stream_create,
                       .stream_destroy = stream_destroy,
                       .stream_query = stream_query,
                       .stream_synchronize = stream_synchronize,
                       .stream_wait_event = stream_wait_event,
                       .stream_is_capturing = stream_is_capturing,
                       .event_create = event_create,
                       .event_destroy = event_destroy,
                       .event_record = event_record,
                       .event_query = event_query,
                       .event_elapsed_time = event_elapsed_time};
  api.context_state = context_state;
  add_transfers(api);
  return api;
}

}  // namespace kolo::test

// What torch asks of a backend beside operators: devices, streams, events and memory.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "support/device/api_call.h"
#include "support/torch_device/backend.h"

namespace kolo::test {
namespace {

// The thread's current device is the simulated runtime's, as CUDA's is; 0 where there is none.
int current_device() {
  int device = 0;
  if (const auto installed = find_backend()) check(installed->api.get_device(&device), "get_device");
  return device;
}

void set_current_device(int device) {
  if (const auto installed = find_backend()) check(installed->api.set_device(device), "set_device");
}

int number_of_devices() {
  int count = 0;
  if (const auto installed = find_backend()) check(installed->api.device_count(&count), "device_count");
  return count;
}

int index_of(const c10::Device& device) { return device.has_index() ? device.index() : current_device(); }

// What c10::Event holds. One of an earlier backend is gone already.
struct TorchEvent {
  std::uint64_t generation;
  cuda::EventHandle handle;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  // The same as long as the process lives, whatever backends there are: autograd asks once.
  c10::DeviceIndex deviceCount() const noexcept override { return TorchDevice::kMost; }
  c10::Device getDevice() const override { return TorchDevice::at(current_device()); }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (const auto installed = find_backend()) installed->api.set_device(device.index());
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device != before) setDevice(device);
    return before;
  }

  c10::Stream getStream(c10::Device device) const override { return backend()->streams.current(index_of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, TorchDevice::at(index_of(device)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override { return backend()->streams.make(index_of(device)); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return backend()->streams.exchange(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return backend()->streams.native_handle(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    const auto mine = backend();
    const OnDevice here(mine->api, stream.device_index());
    const cuda::Status status = mine->api.stream_query(mine->streams.handle(stream));
    if (status != cuda::kNotReady) check(status, "stream_query");
    return status == cuda::kSuccess;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const auto mine = backend();
    const OnDevice here(mine->api, stream.device_index());
    check(mine->api.stream_synchronize(mine->streams.handle(stream)), "stream_synchronize");
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override { backend()->streams.synchronize(device); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    backend()->allocator.record(data, stream);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override;
};

void Guard::record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const {
  const auto mine = backend();
  const OnDevice here(mine->api, stream.device_index());
  auto* made = static_cast<TorchEvent*>(*event);
  if (made == nullptr) {
    made = new TorchEvent{mine->generation, nullptr};
    *event = made;
    check(mine->api.event_create(&made->handle, cuda::kEventDisableTiming), "event_create");
  }
  check(mine->api.event_record(made->handle, mine->streams.handle(stream)), "event_record");
}

void Guard::block(void* event, const c10::Stream& stream) const {
  if (event == nullptr) return;
  const auto mine = backend();
  const OnDevice here(mine->api, stream.device_index());
  const auto handle = static_cast<TorchEvent*>(event)->handle;
  check(mine->api.stream_wait_event(mine->streams.handle(stream), handle, 0), "stream_wait_event");
}

bool Guard::queryEvent(void* event) const {
  if (event == nullptr) return true;
  const cuda::Status status = backend()->api.event_query(static_cast<TorchEvent*>(event)->handle);
  if (status != cuda::kNotReady) check(status, "event_query");
  return status == cuda::kSuccess;
}

// The table has no call for it: a stream that waits for the event is waited for.
void Guard::synchronizeEvent(void* event) const {
  if (event == nullptr) return;
  const auto mine = backend();
  cuda::StreamHandle waiting = nullptr;
  check(mine->api.stream_create(&waiting, cuda::kStreamNonBlocking, 0), "stream_create");
  check(mine->api.stream_wait_event(waiting, static_cast<TorchEvent*>(event)->handle, 0), "stream_wait_event");
  const cuda::Status status = mine->api.stream_synchronize(waiting);
  check(mine->api.stream_destroy(waiting), "stream_destroy");
  check(status, "stream_synchronize");
}

void Guard::destroyEvent(void* event, const c10::DeviceIndex) const noexcept {
  const std::unique_ptr<TorchEvent> gone(static_cast<TorchEvent*>(event));
  const auto installed = find_backend();
  if (gone == nullptr || installed == nullptr || installed->generation != gone->generation) return;
  installed->api.event_destroy(gone->handle);
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return number_of_devices() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return device < number_of_devices(); }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(number_of_devices()); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = getCurrentDevice();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  // The device takes copies from the host at once (operators.cpp): any memory does for pinned memory.
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Device getDeviceFromPtr(void* data) const override {
    const auto held = backend()->device.lock();
    const Block* const block = installed_core()->memory.find(data);
    TORCH_CHECK(block != nullptr && block->kind == MemoryKind::device, "not memory of a simulated device");
    return TorchDevice::at(block->device);
  }
};

// Torch's allocator for the device type; the memory is the installed backend's.
class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override { return backend()->allocator.allocate(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const auto mine = backend();
    const auto stream = mine->streams.handle(mine->streams.current(current_device()));
    check(mine->api.copy(to, from, bytes, cuda::CopyKind::device_to_device, stream), "copy");
  }
};

}  // namespace

bool register_with_torch() {
  c10::register_privateuse1_backend("simulated");
  c10::impl::registerDeviceGuard(c10::DeviceType::PrivateUse1, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(c10::DeviceType::PrivateUse1, new Allocator);
  register_operators();
  return true;
}

}  // namespace kolo::test

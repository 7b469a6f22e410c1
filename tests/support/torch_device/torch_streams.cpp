#include "support/torch_device/torch_streams.h"

#include <array>

#include "support/torch_device/backend.h"

namespace kolo::test {

OnDevice::OnDevice(const cuda::RuntimeApi& api, int device) : api_(api) {
  check(api_.get_device(&before_), "get_device");
  check(api_.set_device(device), "set_device");
}

c10::Stream TorchStreams::make(int device) {
  const OnDevice here(api_, device);
  Made made{device, nullptr};
  check(api_.stream_create(&made.handle, cuda::kStreamNonBlocking, 0), "stream_create");
  const std::scoped_lock held(lock_);
  made_.push_back(made);
  return c10::Stream(c10::Stream::UNSAFE, TorchDevice::at(device), static_cast<c10::StreamId>(made_.size()));
}

cuda::StreamHandle TorchStreams::handle(const c10::Stream& stream) const {
  if (stream.id() == 0) return nullptr;
  const std::scoped_lock held(lock_);
  return made_.at(static_cast<std::size_t>(stream.id()) - 1).handle;
}

// A thread of an earlier backend, autograd's for one, starts again with the default streams.
c10::StreamId& TorchStreams::current_id(int device) const {
  struct Current {
    std::uint64_t generation = 0;
    std::array<c10::StreamId, TorchDevice::kMost> ids{};
  };
  thread_local Current current;
  if (current.generation != generation_) current = {generation_, {}};
  return current.ids.at(static_cast<std::size_t>(device));
}

c10::Stream TorchStreams::current(int device) const {
  return c10::Stream(c10::Stream::UNSAFE, TorchDevice::at(device), current_id(device));
}

c10::Stream TorchStreams::exchange(const c10::Stream& stream) const {
  c10::StreamId& id = current_id(stream.device_index());
  const c10::Stream before(c10::Stream::UNSAFE, stream.device(), id);
  id = stream.id();
  return before;
}

void TorchStreams::synchronize(int device) const {
  std::vector<Made> all;
  {
    const std::scoped_lock held(lock_);
    all = made_;
  }
  int devices = 0;
  check(api_.device_count(&devices), "device_count");
  for (int each = 0; each < devices; ++each) all.push_back({each, nullptr});
  for (const Made& made : all) {
    if (device >= 0 && made.device != device) continue;
    const OnDevice here(api_, made.device);
    check(api_.stream_synchronize(made.handle), "stream_synchronize");
  }
}

void TorchStreams::destroy_all() {
  const std::scoped_lock held(lock_);
  for (const Made& made : made_) api_.stream_destroy(made.handle);
  made_.clear();
}

}  // namespace kolo::test

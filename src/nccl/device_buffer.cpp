#include "nccl/device_buffer.h"

#include <algorithm>
#include <string>

#include "kolo/error.h"

namespace kolo::nccl {

NcclBuffer::NcclBuffer(std::shared_ptr<GroupState> group, std::size_t bytes) : group_(std::move(group)), bytes_(bytes) {
  const NcclApi& api = group_->handle.api();
  if (api.allocate == nullptr || api.release == nullptr || api.register_buffer == nullptr ||
      api.deregister_buffer == nullptr) {
    throw BackendError("this NCCL allocates no memory: that is new in 2.19");
  }
  const cuda::DeviceGuard guard(*group_->runtime, group_->device);
  void* memory = nullptr;
  const Result result = api.allocate(&memory, whole());
  if (result != Result::success || memory == nullptr) {
    throw BackendError("ncclMemAlloc of " + std::to_string(bytes) + " bytes: " + api.error_text(result));
  }
  data_ = static_cast<std::byte*>(memory);
}

NcclBuffer::~NcclBuffer() {
  deregister();
  try {
    const cuda::DeviceGuard guard(*group_->runtime, group_->device);
    (void)group_->handle.api().release(data_);
  } catch (const Error&) {  // the device is gone, and its memory with it
  }
}

std::size_t NcclBuffer::whole() const noexcept { return std::max<std::size_t>(bytes_, 1); }

void NcclBuffer::deregister() noexcept {
  CommHandle& handle = group_->handle;
  if (handle.get() == nullptr) return;  // with its end all registrations have ended
  try {
    const cuda::DeviceGuard guard(*group_->runtime, group_->device);
    handle.registrations().end(handle.api(), handle.get(), data_);
  } catch (const Error&) {
  }
}

PlainBuffer::PlainBuffer(const GroupState& group, std::size_t bytes)
    : memory_(group.runtime, group.device, std::max<std::size_t>(bytes, 1)), bytes_(bytes) {}

std::optional<NcclBuffers> make_nccl_buffers(const std::shared_ptr<GroupState>& group,
                                             std::span<const std::size_t> sizes) {
  try {
    NcclBuffers buffers;
    for (const std::size_t size : sizes) buffers.push_back(std::make_unique<NcclBuffer>(group, size));
    return buffers;
  } catch (const BackendError&) {
    return std::nullopt;
  }
}

std::optional<Buffers> make_plain_buffers(const std::shared_ptr<GroupState>& group,
                                          std::span<const std::size_t> sizes) {
  try {
    Buffers buffers;
    for (const std::size_t size : sizes) buffers.push_back(std::make_unique<PlainBuffer>(*group, size));
    return buffers;
  } catch (const BackendError&) {
    return std::nullopt;
  }
}

void register_windows(GroupState& group, const NcclBuffers& buffers) {
  // Written until NCCL has settled or is aborted, which is inside issue().
  std::vector<Window> windows(buffers.size(), nullptr);
  group.handle.issue("making windows (KOLO_NCCL_REGISTRATION=buffer does without)", [&](const NcclApi& api, Comm comm) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Result result =
          api.register_window(comm, buffers[i]->data().data(), buffers[i]->whole(), &windows[i], kSymmetricWindow);
      if (result != Result::success && result != Result::in_progress) return result;
    }
    return Result::success;
  });
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (windows[i] != nullptr) group.handle.registrations().add_window(buffers[i]->data().data(), windows[i]);
  }
}

bool register_buffers(GroupState& group, const NcclBuffers& buffers) {
  const cuda::DeviceGuard guard(*group.runtime, group.device);
  CommHandle& handle = group.handle;
  for (const auto& buffer : buffers) {
    void* registration = nullptr;
    const Result result =
        handle.api().register_buffer(handle.get(), buffer->data().data(), buffer->whole(), &registration);
    if (result != Result::success) {
      for (const auto& each : buffers) each->deregister();
      return false;
    }
    // Null: NCCL has no use for it.
    if (registration != nullptr) handle.registrations().add_buffer(buffer->data().data(), registration);
  }
  return true;
}

}  // namespace kolo::nccl

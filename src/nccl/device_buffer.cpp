#include "nccl/device_buffer.h"

#include <algorithm>
#include <string>

#include "kolo/error.h"

namespace kolo::nccl {

NcclBuffer::NcclBuffer(std::shared_ptr<GroupState> group, std::size_t bytes) : group_(std::move(group)), bytes_(bytes) {
  const NcclApi& api = group_->handle.api();
  if (api.allocate == nullptr || api.release == nullptr || api.register_buffer == nullptr ||
      api.deregister_buffer == nullptr) {
    throw BackendError("this NCCL has no ncclMemAlloc, which needs NCCL 2.19 or newer");
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
  try {
    const cuda::DeviceGuard guard(*group_->runtime, group_->device);
    group_->handle.deregister_buffer(data_);
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

bool register_buffers(GroupState& group, const NcclBuffers& buffers) {
  const cuda::DeviceGuard guard(*group.runtime, group.device);
  for (const auto& buffer : buffers) {
    if (group.handle.register_buffer(buffer->data().data(), buffer->whole())) continue;
    for (const auto& each : buffers) each->deregister();
    return false;
  }
  return true;
}

}  // namespace kolo::nccl

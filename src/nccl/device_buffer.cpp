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
  const std::size_t at_least_one = std::max<std::size_t>(bytes, 1);
  void* memory = nullptr;
  Result result = api.allocate(&memory, at_least_one);
  if (result != Result::success || memory == nullptr) {
    throw BackendError("ncclMemAlloc of " + std::to_string(bytes) + " bytes: " + api.error_text(result));
  }
  result = api.register_buffer(group_->handle.get(), memory, at_least_one, &registration_);
  if (result != Result::success) {
    (void)api.release(memory);
    throw BackendError("ncclCommRegister of " + std::to_string(bytes) + " bytes: " + api.error_text(result));
  }
  data_ = static_cast<std::byte*>(memory);
}

NcclBuffer::~NcclBuffer() {
  try {
    const NcclApi& api = group_->handle.api();
    const cuda::DeviceGuard guard(*group_->runtime, group_->device);
    const Comm comm = group_->handle.get();  // its end has ended the registration too
    if (comm != nullptr && registration_ != nullptr) (void)api.deregister_buffer(comm, registration_);
    (void)api.release(data_);
  } catch (const Error&) {  // the device is gone, and its memory with it
  }
}

PlainBuffer::PlainBuffer(const GroupState& group, std::size_t bytes)
    : memory_(group.runtime, group.device, std::max<std::size_t>(bytes, 1)), bytes_(bytes) {}

std::optional<Buffers> make_nccl_buffers(const std::shared_ptr<GroupState>& group, std::span<const std::size_t> sizes) {
  try {
    Buffers buffers;
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

}  // namespace kolo::nccl

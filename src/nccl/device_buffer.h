#pragma once
// Registered memory of a device: data() is an address of the device's, not for the host to look at.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/memory.h"
#include "kolo/communicator.h"
#include "nccl/group_state.h"

namespace kolo::nccl {

// From ncclMemAlloc, registered with the communicator, so that NCCL moves it without a copy of its own.
class NcclBuffer final : public RegisteredBuffer {
 public:
  // BackendError where NCCL gives none.
  NcclBuffer(std::shared_ptr<GroupState> group, std::size_t bytes);
  ~NcclBuffer() override;
  [[nodiscard]] std::span<std::byte> data() noexcept override { return {data_, bytes_}; }

 private:
  std::shared_ptr<GroupState> group_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  void* registration_ = nullptr;
};

class PlainBuffer final : public RegisteredBuffer {
 public:
  PlainBuffer(const GroupState& group, std::size_t bytes);
  [[nodiscard]] std::span<std::byte> data() noexcept override { return {memory_.data(), bytes_}; }

 private:
  cuda::DeviceBuffer memory_;
  std::size_t bytes_;
};

using Buffers = std::vector<std::unique_ptr<RegisteredBuffer>>;

// Nothing where one of them cannot be had.
[[nodiscard]] std::optional<Buffers> make_nccl_buffers(const std::shared_ptr<GroupState>& group,
                                                       std::span<const std::size_t> sizes);
[[nodiscard]] std::optional<Buffers> make_plain_buffers(const std::shared_ptr<GroupState>& group,
                                                        std::span<const std::size_t> sizes);

}  // namespace kolo::nccl

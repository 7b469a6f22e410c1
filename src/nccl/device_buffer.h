#pragma once
// Memory of a device for collectives: data() is an address of the device's, not for the host to look at.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/memory.h"
#include "kolo/spi/communicator.h"
#include "nccl/group_state.h"

namespace kolo::nccl {

// From ncclMemAlloc, and once registered, with the functions below, known to the communicator: NCCL then moves it
// without a copy of its own.
class NcclBuffer final : public RegisteredBuffer {
 public:
  // BackendError where NCCL gives none.
  NcclBuffer(std::shared_ptr<GroupState> group, std::size_t bytes);
  ~NcclBuffer() override;
  [[nodiscard]] std::span<std::byte> data() noexcept override { return {data_, bytes_}; }
  [[nodiscard]] std::size_t whole() const noexcept;  // bytes; never none
  // REQUIRES: no operation in flight uses it.
  void deregister() noexcept;

 private:
  std::shared_ptr<GroupState> group_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
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
using NcclBuffers = std::vector<std::unique_ptr<NcclBuffer>>;

// Nothing where one of them cannot be had.
[[nodiscard]] std::optional<NcclBuffers> make_nccl_buffers(const std::shared_ptr<GroupState>& group,
                                                           std::span<const std::size_t> sizes);
[[nodiscard]] std::optional<Buffers> make_plain_buffers(const std::shared_ptr<GroupState>& group,
                                                        std::span<const std::size_t> sizes);

// Each on this rank alone. False, and none is: NCCL did not take one.
[[nodiscard]] bool register_buffers(GroupState& group, const NcclBuffers& buffers);

}  // namespace kolo::nccl

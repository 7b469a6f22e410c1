#pragma once
// A registered buffer that all ranks of the host have mapped.
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "collectives/direct_allreduce.h"
#include "kolo/spi/communicator.h"
#include "transport/shared_memory.h"

namespace kolo::comm {

class SharedBuffer final : public RegisteredBuffer {
 public:
  // `buffer` is shared with the operations on it, which may be abandoned and then outlive this.
  SharedBuffer(std::shared_ptr<collectives::DirectBuffer> buffer, int local_rank)
      : buffer_(std::move(buffer)), local_rank_(static_cast<std::size_t>(local_rank)) {}
  [[nodiscard]] std::span<std::byte> data() noexcept override { return {buffer_->memory[local_rank_], buffer_->bytes}; }
  [[nodiscard]] const std::shared_ptr<collectives::DirectBuffer>& direct() const noexcept { return buffer_; }

 private:
  std::shared_ptr<collectives::DirectBuffer> buffer_;
  std::size_t local_rank_;
};

// Collective over the ranks of `memory`, who pass the same sizes.
[[nodiscard]] std::vector<std::unique_ptr<RegisteredBuffer>> allocate_shared_buffers(transport::SharedMemory& memory,
                                                                                     std::span<const std::size_t> sizes,
                                                                                     std::chrono::milliseconds timeout);
// What lies behind `registered`. Throws UsageError when that is no SharedBuffer.
[[nodiscard]] const std::shared_ptr<collectives::DirectBuffer>& direct_buffer_of(const RegisteredBuffer* registered);
[[nodiscard]] inline const std::shared_ptr<collectives::DirectBuffer>& direct_buffer_of(
    const AllreduceOptions& options) {
  return direct_buffer_of(options.registered);
}

}  // namespace kolo::comm

// How the communicator allocates memory: NCCL's own, registered with it, or else plain memory of the device. NCCL uses
// a registration only if every rank passes registered memory, so the ranks agree on each step.
#include <numeric>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "nccl/nccl_communicator.h"

namespace kolo::nccl {

// A deadline here leaves the scratch bytes in use, so it ends the group.
void NcclCommunicator::finish(Operation& operation, std::chrono::milliseconds timeout) {
  try {
    drive(operation, timeout, "allocate");
  } catch (const TimeoutError&) {
    handle().fail(std::current_exception());
  }
}

// The scratch bytes go to the device and back in the stream of the barriers.
bool NcclCommunicator::all_agree(bool mine, std::chrono::milliseconds timeout) {
  const Stream stream = scratch_.stream();
  AllreduceOptions options;
  options.data = scratch_.on_device() + 64;
  options.count = 1;
  options.dtype = DType::u8;
  options.op = ReduceOp::min;
  options.stream = stream;
  *scratch_.on_host() = static_cast<std::byte>(mine);
  (void)enqueue(stream, "allocate: copy of the vote to the device",
                [&] { cuda::copy(*group_->runtime, options.data, scratch_.on_host(), 1, stream); });
  (void)start(options);
  const auto copied = enqueue(stream, "allocate: copy of the votes to the CPU",
                              [&] { cuda::copy(*group_->runtime, scratch_.on_host(), options.data, 1, stream); });
  finish(*copied, timeout);
  return *scratch_.on_host() != std::byte{0};
}

std::optional<Buffers> NcclCommunicator::registered_buffers(std::span<const std::size_t> sizes,
                                                            std::chrono::milliseconds timeout) {
  if (!registers_buffers_) return std::nullopt;
  std::optional<NcclBuffers> buffers = make_nccl_buffers(group_, sizes);
  if (!all_agree(buffers.has_value(), timeout)) return std::nullopt;
  if (!all_agree(register_buffers(*group_, *buffers), timeout)) return std::nullopt;
  return Buffers(std::make_move_iterator(buffers->begin()), std::make_move_iterator(buffers->end()));
}

std::vector<std::unique_ptr<RegisteredBuffer>> NcclCommunicator::allocate(std::span<const std::size_t> sizes,
                                                                          std::chrono::milliseconds timeout) {
  handle().poll("allocate");
  std::optional<Buffers> buffers = registered_buffers(sizes, timeout);
  if (!buffers.has_value()) {
    buffers = make_plain_buffers(group_, sizes);
    if (!all_agree(buffers.has_value(), timeout)) {
      throw cuda::NoDeviceMemory(
          "allocate: " + std::to_string(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0})) +
          " bytes are not available on the devices of all ranks" +
          (buffers.has_value() ? "; this rank has them" : "; this rank lacks them"));
    }
  }
  try {
    const auto zeroed = enqueue(scratch_.stream(), "allocate: clearing of new buffers", [&] {
      for (const auto& buffer : *buffers) {
        const std::span<std::byte> memory = buffer->data();
        if (!memory.empty()) cuda::fill_zero(*group_->runtime, memory.data(), memory.size(), scratch_.stream());
      }
    });
    finish(*zeroed, timeout);
  } catch (...) {
    scratch_.release_after(std::move(*buffers));
    throw;
  }
  return std::move(*buffers);
}

}  // namespace kolo::nccl

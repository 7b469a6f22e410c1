// The half of the communicator that makes memory. NCCL takes registered memory only where every rank passes some, so at
// each step from the best to what always goes, all ranks have it or none goes on with it.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kolo/error.h"
#include "nccl/nccl_communicator.h"

namespace kolo::nccl {
namespace {

// Equal for equal sizes, and hardly for others. Not negative.
std::int64_t digest_of(std::span<const std::size_t> sizes) {
  std::uint64_t digest = 14695981039346656037U;  // FNV-1a, by words
  for (const std::size_t size : sizes) digest = (digest ^ size) * 1099511628211U;
  return static_cast<std::int64_t>(digest >> 1U);
}

}  // namespace

// A deadline here leaves the scratch bytes in use, so it ends the group.
void NcclCommunicator::finish(Operation& operation, std::chrono::milliseconds timeout) {
  try {
    drive(operation, timeout, "allocate");
  } catch (const TimeoutError&) {
    handle().fail(std::current_exception());
  }
}

// Of what all ranks say. The scratch bytes go to the device and back in the stream of the barriers.
std::int64_t NcclCommunicator::least(std::int64_t mine, std::chrono::milliseconds timeout) {
  const Stream stream = scratch_.stream();
  AllreduceOptions options;
  options.data = scratch_.on_device() + 64;
  options.count = 1;
  options.dtype = DType::i64;
  options.op = ReduceOp::min;
  options.stream = stream;
  std::memcpy(scratch_.on_host(), &mine, sizeof(mine));
  (void)enqueue(stream, "the question to all ranks",
                [&] { cuda::copy(*group_->runtime, options.data, scratch_.on_host(), sizeof(mine), stream); });
  (void)start(options);
  const auto copied = enqueue(stream, "the answers of all ranks", [&] {
    cuda::copy(*group_->runtime, scratch_.on_host(), options.data, sizeof(mine), stream);
  });
  finish(*copied, timeout);
  std::int64_t answer = 0;
  std::memcpy(&answer, scratch_.on_host(), sizeof(answer));
  return answer;
}

// Whether all of them are, on all ranks. If not, none is, and none will be: these devices have no symmetric memory.
bool NcclCommunicator::in_windows(const NcclBuffers& buffers, std::chrono::milliseconds timeout) {
  register_windows(*group_, buffers);
  if (all_agree(std::ranges::all_of(buffers, [](const auto& each) { return each->in_window(); }), timeout)) return true;
  for (const auto& each : buffers) each->deregister();
  registration_ = NcclRegistration::buffer;
  return false;
}

std::optional<Buffers> NcclCommunicator::registered_buffers(std::span<const std::size_t> sizes,
                                                            std::chrono::milliseconds timeout) {
  if (registration_ == NcclRegistration::off) return std::nullopt;
  std::optional<NcclBuffers> buffers = make_nccl_buffers(group_, sizes);
  if (!all_agree(buffers.has_value(), timeout)) return std::nullopt;
  const std::int64_t digest = digest_of(sizes);
  const std::int64_t lowest = least(digest, timeout);
  if (lowest != -least(-digest, timeout)) {
    throw MismatchError("allocate: ranks ask for different sizes; rank " + std::to_string(rank()) + " for " +
                        std::to_string(sizes.size()) + " buffers of " +
                        std::to_string(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0})) +
                        " bytes together");
  }
  const bool windows = registration_ == NcclRegistration::window && in_windows(*buffers, timeout);
  if (!windows && !all_agree(register_buffers(*group_, *buffers), timeout)) return std::nullopt;
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
          " bytes cannot be had on the devices of all ranks" +
          (buffers.has_value() ? "; this rank has them" : "; this rank has not"));
    }
  }
  try {
    const auto zeroed = enqueue(scratch_.stream(), "zeros for new buffers", [&] {
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

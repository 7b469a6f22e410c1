#include "comm/validate.h"

#include <cmath>
#include <limits>
#include <string>

#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

void check_memory(const char* call, const char* which, const void* data, std::size_t count, DType dtype) {
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / size_of(dtype)) {
    throw UsageError(std::string(call) + ": count " + std::to_string(count) + " does not fit the address space");
  }
  if (count != 0 && data == nullptr) throw UsageError(std::string(call) + ": " + which + " is null");
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) != 0) {
    throw UsageError(std::string(call) + ": " + which + " is not aligned to its element type " +
                     std::string(name_of(dtype)));
  }
}

void check_stream(const char* call, const Stream& stream, Memory memory) {
  if (memory == Memory::device || stream.on_host()) return;
  throw UsageError(std::string(call) + ": the stream is on device " + std::to_string(stream.device) +
                   ", but this communicator needs CPU memory. Copy the data to the CPU, and do not set `stream`");
}

// The sum of `counts`, which must be one per rank.
std::size_t check_counts(const char* call, std::span<const std::size_t> counts, int size) {
  if (counts.size() != static_cast<std::size_t>(size)) {
    throw UsageError(std::string(call) + ": " + std::to_string(counts.size()) + " counts for " + std::to_string(size) +
                     " ranks");
  }
  std::size_t sum = 0;
  for (const std::size_t count : counts) {
    if (count > std::numeric_limits<std::size_t>::max() - sum)
      throw UsageError(std::string(call) + ": counts overflow");
    sum += count;
  }
  return sum;
}

}  // namespace

void validate_sizes(std::span<const std::size_t> sizes) {
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / 2;  // leaves room for what lies between
  std::size_t sum = 0;
  for (const std::size_t bytes : sizes) {
    if (bytes > kMost - sum) {
      throw UsageError("allocate: a buffer of " + std::to_string(bytes) + " bytes does not fit the address space");
    }
    sum += bytes;
  }
}

void validate(const AllreduceOptions& options, Memory memory) {
  check_stream("allreduce", options.stream, memory);
  check_memory("allreduce", "data", options.data, options.count, options.dtype);
  if (!std::isfinite(options.prescale) || !std::isfinite(options.postscale)) {
    throw UsageError("allreduce: prescale and postscale must be finite");
  }
  if (!is_floating(options.dtype) && (options.prescale != 1.0 || options.postscale != 1.0)) {
    throw UsageError("allreduce: " + std::string(name_of(options.dtype)) +
                     " cannot be scaled; use f16, bf16, f32 or f64");
  }
  if (options.flags.words.size() > kMaxFlagWords) {
    throw UsageError("allreduce: " + std::to_string(options.flags.words.size()) + " flag words; at most " +
                     std::to_string(kMaxFlagWords));
  }
  if (options.registered == nullptr || options.count == 0) return;
  const std::span<std::byte> whole = options.registered->data();
  const std::size_t bytes = options.count * size_of(options.dtype);
  if (options.data < whole.data() || options.data + bytes > whole.data() + whole.size()) {
    throw UsageError("allreduce: data does not lie in the registered buffer");
  }
}

void validate(const BroadcastOptions& options, int size, Memory memory) {
  check_stream("broadcast", options.stream, memory);
  check_memory("broadcast", "data", options.data, options.bytes, DType::u8);
  if (options.root < 0 || options.root >= size) {
    throw UsageError("broadcast: root " + std::to_string(options.root) + " is not in a group of " +
                     std::to_string(size));
  }
}

void validate(const AllgatherOptions& options, int size, Rank rank, Memory memory) {
  check_stream("allgather", options.stream, memory);
  const std::size_t sum = check_counts("allgather", options.counts, size);
  check_memory("allgather", "input", options.input, options.counts[static_cast<std::size_t>(rank)], DType::u8);
  check_memory("allgather", "output", options.output, sum, DType::u8);
}

void validate(const ReduceScatterOptions& options, int size, Rank rank, Memory memory) {
  check_stream("reduce_scatter", options.stream, memory);
  const std::size_t sum = check_counts("reduce_scatter", options.counts, size);
  check_memory("reduce_scatter", "input", options.input, sum, options.dtype);
  const std::size_t own = options.counts[static_cast<std::size_t>(rank)];
  check_memory("reduce_scatter", "output", options.output, own, options.dtype);
}

}  // namespace kolo::comm

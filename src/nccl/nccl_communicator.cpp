#include "nccl/nccl_communicator.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "comm/validate.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"
#include "nccl/device_buffer.h"
#include "nccl/device_operation.h"
#include "nccl/type_names.h"

namespace kolo::nccl {
namespace {

bool all_equal(std::span<const std::size_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](std::size_t count) { return count == counts[0]; });
}

std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::string elements_text(std::size_t count, DType dtype) {
  return std::to_string(count) + " " + std::string(name_of(dtype));
}

cuda::StreamHandle handle_of(Stream stream) { return stream.handle; }

// NCCL has no parameter for it.
void check_algorithm(Algorithm asked) {
  if (asked == Algorithm::automatic) return;
  throw UsageError(
      "allreduce: NCCL has no algorithm option for one call; set NCCL_ALGO=allreduce:ring or allreduce:tree before the "
      "communicator is created (before NCCL 2.24: NCCL_ALGO=ring or tree)");
}

// NCCL's own needs parts of one size: others go as one broadcast from every rank.
Result allgather_calls(const NcclApi& api, Comm comm, const AllgatherOptions& options) {
  const cuda::StreamHandle stream = handle_of(options.stream);
  if (all_equal(options.counts)) {
    if (options.counts[0] == 0) return Result::success;
    return api.all_gather(options.input, options.output, options.counts[0], Type::u8, comm, stream);
  }
  std::byte* to = options.output;
  for (std::size_t r = 0; r < options.counts.size(); ++r) {
    const std::size_t count = options.counts[r];
    if (count == 0) continue;
    // Only the root's input is looked at, but every rank has to give an address of the device's.
    const std::byte* from = options.input != nullptr ? options.input : to;
    const Result result = api.broadcast(from, to, count, Type::u8, static_cast<int>(r), comm, stream);
    if (result != Result::success && result != Result::in_progress) return result;
    to += count;
  }
  return Result::success;
}

// As above: others go as one reduction to every rank.
Result reduce_scatter_calls(const NcclApi& api, Comm comm, const ReduceScatterOptions& options,
                            const Reduction& reduction) {
  const cuda::StreamHandle stream = handle_of(options.stream);
  if (all_equal(options.counts)) {
    if (options.counts[0] == 0) return Result::success;
    return api.reduce_scatter(options.input, options.output, options.counts[0], reduction.type, reduction.op, comm,
                              stream);
  }
  const std::byte* from = options.input;
  for (std::size_t r = 0; r < options.counts.size(); ++r) {
    const std::size_t count = options.counts[r];
    if (count == 0) continue;
    const Result result =
        api.reduce(from, options.output, count, reduction.type, reduction.op, static_cast<int>(r), comm, stream);
    if (result != Result::success && result != Result::in_progress) return result;
    from += count * size_of(options.dtype);
  }
  return Result::success;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const CommunicatorParts& parts)
    : group_(parts.group),
      registers_buffers_(parts.registers_buffers),
      kernels_(parts.kernels),
      scratch_(group_->runtime, group_->device) {}

// Before the scratch memory goes: what is aborted stops using it.
NcclCommunicator::~NcclCommunicator() {
  handle().end([this] { return last_ == nullptr || last_->event().passed(); });
}

void NcclCommunicator::abort() noexcept {
  if (handle().failed()) return;
  try {
    handle().fail(std::make_exception_ptr(BackendError("NCCL: aborted, because the group has ended")));
  } catch (const std::exception&) {  // for those who call later
  }
}

void NcclCommunicator::check_stream(std::string_view call, Stream stream) const {
  if (stream.on_host()) {
    throw UsageError(std::string(call) +
                     ": a communicator over NCCL got CPU memory; set `stream` for memory of device " +
                     std::to_string(group_->device) + ", or use a communicator for CPU memory");
  }
  if (stream.device != group_->device) {
    throw UsageError(std::string(call) + ": the stream belongs to device " + std::to_string(stream.device) +
                     ", the communicator to device " + std::to_string(group_->device));
  }
}

void NcclCommunicator::check_scale(std::string_view call, double factor) const {
  if (factor == 1.0 || kernels_ != nullptr) return;
  throw UsageError(std::string(call) +
                   ": this build of kolo has no device code, so it cannot scale or average on a device; use sum, or "
                   "build kolo with KOLO_WITH_CUDA=ON");
}

void NcclCommunicator::scale(const kernels::ScaleRun& run, Stream stream) const {
  if (run.factor != 1.0 && run.count != 0) kernels::scale(*kernels_, run, stream);
}

// Peers have this operation in their streams: a rank that cannot have it in its own, or not in its place, ends the
// group.
std::unique_ptr<Operation> NcclCommunicator::enqueue(Stream stream, std::string what, const Body& body) {
  handle().poll(what);
  try {
    const cuda::DeviceGuard guard(*group_->runtime, group_->device);
    if (last_ != nullptr && last_->stream().handle != stream.handle) {
      cuda::wait_for(*group_->runtime, stream, last_->event());
    }
    body();
    last_ = std::make_shared<const StreamPoint>(group_, stream);
    return std::make_unique<DeviceOperation>(group_, last_, std::move(what));
  } catch (...) {
    handle().fail(std::current_exception());
  }
}

std::unique_ptr<Operation> NcclCommunicator::start(const AllreduceOptions& options) {
  comm::validate(options, comm::Memory::device);
  check_stream("allreduce", options.stream);
  if (!options.flags.words.empty()) {
    throw UsageError("allreduce: flag words are in CPU memory and cannot travel with device memory");
  }
  const Reduction reduction = reduction_of("allreduce", options.dtype, options.op);
  check_algorithm(options.algorithm);
  const double after = options.postscale / (reduction.divides ? size() : 1);
  check_scale("allreduce", options.prescale);
  check_scale("allreduce", after);
  std::string what = "allreduce of " + elements_text(options.count, options.dtype);
  return enqueue(options.stream, what, [&] {
    if (options.count == 0) return;
    scale({options.data, options.count, options.dtype, options.prescale}, options.stream);
    const auto call = [&](const NcclApi& api, Comm comm) {
      return api.all_reduce(options.data, options.data, options.count, reduction.type, reduction.op, comm,
                            handle_of(options.stream));
    };
    handle().issue(what, call);
    scale({options.data, options.count, options.dtype, after}, options.stream);
  });
}

std::unique_ptr<Operation> NcclCommunicator::start(const BroadcastOptions& options) {
  comm::validate(options, size(), comm::Memory::device);
  check_stream("broadcast", options.stream);
  const std::string what =
      "broadcast of " + std::to_string(options.bytes) + " bytes from rank " + std::to_string(options.root);
  return enqueue(options.stream, what, [&] {
    if (options.bytes == 0) return;
    handle().issue(what, [&](const NcclApi& api, Comm comm) {
      return api.broadcast(options.data, options.data, options.bytes, Type::u8, options.root, comm,
                           handle_of(options.stream));
    });
  });
}

std::unique_ptr<Operation> NcclCommunicator::start(const AllgatherOptions& options) {
  comm::validate(options, size(), rank(), comm::Memory::device);
  check_stream("allgather", options.stream);
  const std::string what = "allgather of " + std::to_string(sum_of(options.counts)) + " bytes";
  return enqueue(options.stream, what, [&] {
    if (sum_of(options.counts) == 0) return;
    handle().issue(what, [&](const NcclApi& api, Comm comm) { return allgather_calls(api, comm, options); });
  });
}

std::unique_ptr<Operation> NcclCommunicator::start(const ReduceScatterOptions& options) {
  comm::validate(options, size(), rank(), comm::Memory::device);
  check_stream("reduce_scatter", options.stream);
  const Reduction reduction = reduction_of("reduce_scatter", options.dtype, options.op);
  const double after = 1.0 / (reduction.divides ? size() : 1);
  check_scale("reduce_scatter", after);
  const std::string what = "reduce_scatter of " + elements_text(sum_of(options.counts), options.dtype);
  return enqueue(options.stream, what, [&] {
    if (sum_of(options.counts) == 0) return;
    handle().issue(what,
                   [&](const NcclApi& api, Comm comm) { return reduce_scatter_calls(api, comm, options, reduction); });
    const std::size_t own = options.counts[static_cast<std::size_t>(rank())];
    scale({options.output, own, options.dtype, after}, options.stream);
  });
}

std::unique_ptr<Operation> NcclCommunicator::start_barrier() {
  AllreduceOptions options;
  options.data = scratch_.on_device();
  options.count = 1;
  options.dtype = DType::i32;
  options.op = ReduceOp::max;
  options.stream = scratch_.stream();
  return start(options);
}

Choice NcclCommunicator::explain(const AllreduceOptions& options) const {
  check_algorithm(options.algorithm);
  return {Algorithm::automatic,
          "NCCL chooses: by NCCL_ALGO if it was set when the communicator was created, otherwise by NCCL's model of "
          "the links"};
}

void NcclCommunicator::wait_for_activity(std::chrono::microseconds at_most) {
  std::this_thread::sleep_for(std::min<std::chrono::microseconds>(at_most, std::chrono::microseconds(100)));
}

}  // namespace kolo::nccl

// Plain MPI calls: the baseline to compare with, and a second implementation for the contract tests.
//
// Everything is done inside start(), by blocking calls that know no deadline. MPI has no 16-bit floats: they travel as
// f32, and are rounded once. An average of integers shorter than 64 bits travels as 64-bit integers. Flags are an
// MPI_Allreduce of their own, with MPI_BOR, before the data. Counts beyond MPI's int go in several calls.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/deadline.h"
#include "cluster/mpi_runtime.h"
#include "collectives/reduction.h"
#include "collectives/widen.h"
#include "comm/complete_operation.h"
#include "comm/make.h"
#include "comm/private_buffer.h"
#include "comm/validate.h"
#include "kernels/scale_copy.h"
#include "kolo/error.h"
#include "kolo/spi/communicator.h"

namespace kolo::comm {
namespace {

constexpr std::size_t kMostPerCall = std::size_t{1} << 30;  // elements

using cluster::check_mpi;
using cluster::MpiTurn;

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i8:
      return MPI_INT8_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i16:
      return MPI_INT16_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::boolean:
      return MPI_UINT8_T;
    default:
      throw UsageError("MPI has no 16-bit floats; use f32 or f64");
  }
}

MPI_Op mpi_op(DType dtype, ReduceOp op) {
  const bool boolean = dtype == DType::boolean;
  switch (op) {
    case ReduceOp::sum:
      return boolean ? MPI_MAX : MPI_SUM;
    case ReduceOp::average:
      return boolean ? MPI_MIN : MPI_SUM;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::product:
      return boolean ? MPI_MIN : MPI_PROD;
  }
  throw UsageError("unknown reduction");
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(const void* handle) : comm_(handle, base::Deadline(std::chrono::seconds(60))) {}

  [[nodiscard]] Rank rank() const noexcept override { return comm_.rank(); }
  [[nodiscard]] int size() const noexcept override { return comm_.size(); }

  std::unique_ptr<Operation> start(const AllreduceOptions& options) override {
    validate(options);
    if (options.algorithm != Algorithm::automatic && options.algorithm != Algorithm::mpi) {
      throw UsageError("allreduce: the mpi communicator has only the algorithm mpi");
    }
    if (!vetoed(options.flags)) reduce_in_place(options);
    return std::make_unique<CompleteOperation>();
  }

  std::unique_ptr<Operation> start(const BroadcastOptions& options) override {
    validate(options, size());
    broadcast_bytes(options.data, options.bytes, options.root);
    return std::make_unique<CompleteOperation>();
  }

  std::unique_ptr<Operation> start(const AllgatherOptions& options) override {
    validate(options, size(), rank());
    const std::size_t total = std::accumulate(options.counts.begin(), options.counts.end(), std::size_t{0});
    if (total <= static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      gather_in_one_call(options);
    } else {
      gather_by_broadcasts(options);
    }
    return std::make_unique<CompleteOperation>();
  }

  std::unique_ptr<Operation> start(const ReduceScatterOptions& options) override {
    validate(options, size(), rank());
    const std::size_t count = std::accumulate(options.counts.begin(), options.counts.end(), std::size_t{0});
    const bool native = !is_half(options.dtype) && options.op != ReduceOp::average && count <= kMostPerCall;
    if (native) {
      const std::vector<int> counts(options.counts.begin(), options.counts.end());
      const MpiTurn turn;
      check_mpi(MPI_Reduce_scatter(options.input, options.output, counts.data(), mpi_type(options.dtype),
                                   mpi_op(options.dtype, options.op), comm_.get()),
                "MPI_Reduce_scatter");
    } else {
      scatter_from_allreduce(options, count);
    }
    return std::make_unique<CompleteOperation>();
  }

  std::unique_ptr<Operation> start_barrier() override {
    const MpiTurn turn;
    check_mpi(MPI_Barrier(comm_.get()), "MPI_Barrier");
    return std::make_unique<CompleteOperation>();
  }

  std::vector<std::unique_ptr<RegisteredBuffer>> allocate(std::span<const std::size_t> sizes,
                                                          std::chrono::milliseconds /*timeout*/) override {
    return make_private_buffers(sizes);
  }

  [[nodiscard]] Choice explain(const AllreduceOptions& /*options*/) const override {
    return {Algorithm::mpi, "MPI_Allreduce"};
  }

  void wait_for_activity(std::chrono::microseconds /*at_most*/) override {}

 private:
  bool vetoed(const FlagWords& flags) {
    if (flags.words.empty()) return false;
    const MpiTurn turn;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, flags.words.data(), static_cast<int>(flags.words.size()), MPI_UINT64_T,
                            MPI_BOR, comm_.get()),
              "MPI_Allreduce");
    return flags.vetoed();
  }

  void allreduce_native(std::byte* data, std::size_t count, DType dtype, ReduceOp op) {
    const MPI_Datatype type = mpi_type(dtype);
    const MpiTurn turn;
    for (std::size_t done = 0; done < count; done += kMostPerCall) {
      const auto now = static_cast<int>(std::min(kMostPerCall, count - done));
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, data + done * size_of(dtype), now, type, mpi_op(dtype, op), comm_.get()),
                "MPI_Allreduce");
    }
  }

  void reduce_in_place(const AllreduceOptions& options) {
    const auto [data, count, dtype] = std::tuple(options.data, options.count, options.dtype);
    if (is_half(dtype)) return reduce_halves(options);
    if (options.op == ReduceOp::average && collectives::can_widen(dtype)) return average_integers(options);
    if (options.prescale != 1.0) kernels::scale_copy(data, dtype, data, dtype, count, options.prescale);
    allreduce_native(data, count, dtype, options.op);
    finish(data, count, dtype, options);
  }

  // The division and the postscale, which come after the sum.
  void finish(std::byte* data, std::size_t count, DType dtype, const AllreduceOptions& options) const {
    const bool average = options.op == ReduceOp::average && dtype != DType::boolean;
    if (count == 0 || (!average && options.postscale == 1.0)) return;
    const std::byte* const input = data;
    collectives::combine({dtype, options.op, 1.0, options.postscale}, {&input, 1}, {&data, 1}, count, {true, size()});
  }

  void reduce_halves(const AllreduceOptions& options) {
    std::vector<float> wide(options.count);
    auto* data = reinterpret_cast<std::byte*>(wide.data());
    kernels::scale_copy(options.data, options.dtype, data, DType::f32, options.count, options.prescale);
    allreduce_native(data, options.count, DType::f32, options.op);
    finish(data, options.count, DType::f32, options);
    kernels::scale_copy(data, DType::f32, options.data, options.dtype, options.count, 1.0);
  }

  void average_integers(const AllreduceOptions& options) {
    std::vector<std::int64_t> wide(options.count);
    auto* data = reinterpret_cast<std::byte*>(wide.data());
    collectives::widen(options.data, options.dtype, options.count, wide.data());
    allreduce_native(data, options.count, DType::i64, ReduceOp::sum);
    finish(data, options.count, DType::i64, options);
    collectives::narrow(wide.data(), options.dtype, options.count, options.data);
  }

  void scatter_from_allreduce(const ReduceScatterOptions& options, std::size_t count) {
    const std::size_t element = size_of(options.dtype);
    std::vector<std::byte> work(options.input, options.input + count * element);
    AllreduceOptions whole;
    whole.data = work.data();
    whole.count = count;
    whole.dtype = options.dtype;
    whole.op = options.op;
    reduce_in_place(whole);
    const auto mine = options.counts.begin() + rank();
    const std::size_t before = std::accumulate(options.counts.begin(), mine, std::size_t{0});
    if (*mine != 0) std::memcpy(options.output, work.data() + before * element, *mine * element);
  }

  void broadcast_bytes(std::byte* data, std::size_t bytes, Rank root) {
    const MpiTurn turn;
    for (std::size_t done = 0; done < bytes; done += kMostPerCall) {
      const auto now = static_cast<int>(std::min(kMostPerCall, bytes - done));
      check_mpi(MPI_Bcast(data + done, now, MPI_BYTE, root, comm_.get()), "MPI_Bcast");
    }
  }

  void gather_in_one_call(const AllgatherOptions& options) {
    const std::vector<int> counts(options.counts.begin(), options.counts.end());
    std::vector<int> offsets(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
    const auto self = static_cast<std::size_t>(rank());
    // MPI has all ranks gather in place, or none.
    std::byte* const mine = options.output + offsets[self];
    if (counts[self] != 0 && options.input != mine) std::memcpy(mine, options.input, options.counts[self]);
    const MpiTurn turn;
    check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, options.output, counts.data(), offsets.data(),
                             MPI_BYTE, comm_.get()),
              "MPI_Allgatherv");
  }

  void gather_by_broadcasts(const AllgatherOptions& options) {
    std::byte* output = options.output;
    for (Rank r = 0; r < size(); ++r) {
      const std::size_t bytes = options.counts[static_cast<std::size_t>(r)];
      if (r == rank() && bytes != 0 && output != options.input) std::memcpy(output, options.input, bytes);
      broadcast_bytes(output, bytes, r);
      output += bytes;
    }
  }

  cluster::MpiComm comm_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi(const void* mpi_comm) {
  cluster::require_mpi();
  return std::make_unique<MpiCommunicator>(mpi_comm);
}

}  // namespace kolo::comm

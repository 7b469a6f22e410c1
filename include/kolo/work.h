#pragma once
// Asynchronous collectives on CPU memory of the caller.
//
//   kolo::Request request;
//   request.sizes = {3};
//   request.input = request.output = values.data();  // three floats
//   kolo::Work work = context.submit(request);
//   work.wait();  // values are now the sums over all ranks
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

class WorkState;

enum class RequestKind : std::uint8_t { allreduce, broadcast, allgather, barrier };

// The arguments of one rank for an asynchronous collective. Kind, dtype, sizes, strides, op, scales and root must be
// equal on all ranks, except the first size of an allgather; otherwise every rank throws MismatchError. `input` and
// `output` may be the same memory. The caller keeps both alive and does not use them until the Work is done.
struct Request {
  // Matched across ranks: ranks may submit requests in any order. It must not begin with gradients/, failures/ or
  // kolo/. Empty: the n-th request without a name is matched with the n-th of the other ranks; in errors it is called
  // kolo/unnamed/n. Only one thread of a rank may submit unnamed requests. If 8 of them are in flight, submit() waits
  // for the oldest. After an exception left Context::run() on any rank, or a TimeoutError of a step or request, all
  // later unnamed requests of this Context throw UsageError: the ranks may have made different numbers of calls.
  std::string name;
  RequestKind kind = RequestKind::allreduce;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // in elements; dimensions in any order, without gaps; empty: row-major
  ReduceOp op = ReduceOp::sum;
  // Factors on floating-point elements before and after the reduction. Integers and boolean need 1.
  double prescale = 1.0;
  double postscale = 1.0;
  Rank root = 0;                // broadcast only
  const void* input = nullptr;  // CPU memory; broadcast: read at the root only
  // CPU memory for the result. An allgather needs room for the tensors of all ranks. Null: the result stays in kolo's
  // memory, see Work::result().
  void* output = nullptr;
  std::shared_ptr<const void> keep;  // the owner of input and output; released when the Work is done
  std::string refused{};             // not empty: the reason why this rank cannot take part; all ranks throw UsageError
};

// Handle of a submitted request. Cheap to copy; thread-safe. It may outlive its Context: a request that was pending at
// shutdown fails with UsageError.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  // True if wait() would return or throw at once; true for an empty Work, which belongs to no request.
  [[nodiscard]] bool done() const noexcept;
  // Blocks until the operation is complete, and throws its error; TimeoutError after Config::timeout, or `timeout`;
  // UsageError for an empty Work. After TimeoutError, if done() is false, the operation continues and uses the memory;
  // if it is true, all ranks have cancelled the operation, and the caller owns the memory again. Exception: if the
  // Context is unusable (Context::failure()), keep the memory alive until the Context is destroyed.
  void wait();
  void wait_for(std::chrono::milliseconds timeout);
  // The result in kolo's memory. It stays valid while a copy of this Work exists and the name is not submitted again;
  // for an unnamed request, until the eighth unnamed request after it. Throws UsageError before wait() has returned,
  // and for an empty Work.
  [[nodiscard]] std::span<const std::byte> result() const;

 private:
  [[nodiscard]] WorkState& state() const;  // throws UsageError for an empty Work

  std::shared_ptr<WorkState> state_;  // shared by caller and coordinator, either may release it first
};

}  // namespace kolo

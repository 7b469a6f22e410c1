#pragma once
// Operations on memory of the program, as requests.
//
//   kolo::Request request;
//   request.sizes = {3};
//   request.input = request.output = values;  // three floats
//   context.engine().submit(request).wait();  // their sums over all ranks
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kolo/engine_lifetime.h"
#include "kolo/export.h"
#include "kolo/gradient_reducer.h"
#include "kolo/images.h"
#include "kolo/optimizer_step.h"
#include "kolo/stream.h"
#include "kolo/types.h"
#include "kolo/work.h"

namespace KOLO_EXPORT kolo {

enum class RequestKind : std::uint8_t { allreduce, broadcast, allgather, barrier };

// What one rank wants. Kind, dtype, sizes, strides, op, scales and root must agree on all ranks, else MismatchError on
// every rank (an allgather's first size may differ). `input` must live and stay unchanged until the Work is done.
struct Request {
  // Matched across ranks: ranks may submit requests in any order. It must not begin with gradients/, failures/ or
  // kolo/. Empty: the n-th request without a name is matched with the n-th of the other ranks; in errors it is called
  // kolo/unnamed/n. Such requests come from one thread of a rank. At most 8 are in flight: the next one waits for the
  // oldest. After PeerFailedError or TimeoutError they are refused, because ranks may have made different numbers of
  // calls.
  std::string name;
  RequestKind kind = RequestKind::allreduce;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // dense, dimensions in any order (is_dense()); empty: contiguous
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  Rank root = 0;                     // broadcast only
  const void* input = nullptr;       // broadcast: read at the root only
  void* output = nullptr;            // null: leave the result in kolo's memory, see Work::result()
  Stream stream;                     // the host's: memory of a device is a UsageError
  std::shared_ptr<const void> keep;  // whatever owns input and output; let go when the Work is done
  std::string refused{};             // not empty: why this rank cannot take part; every rank then gets a UsageError
};

// Thread-safe. One per Context; made and ended by it. What it makes (reducers, launchers) must not be used once it has
// gone, and may still be destroyed; memory of theirs is then lost.
class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual EngineLifetime lifetime() const noexcept = 0;
  // True after Context::shutdown(): calls that need other ranks throw UsageError. Thread-safe.
  [[nodiscard]] virtual bool is_stopped() const noexcept = 0;
  // How many ranks it serves.
  [[nodiscard]] virtual int size() const noexcept = 0;
  // Throws UsageError if the name is kolo's own or pending on this rank, for a request without a name from a
  // second thread, and after shutdown.
  // Rethrows the fatal error of a poisoned group. If a request is malformed or `refused`, the Work
  // of every rank throws one UsageError naming the rank; nothing is executed, the name is free.
  virtual Work submit(Request request) = 0;
  // As submit(), for kolo's own libraries. REQUIRES: a name that begins with kolo/.
  virtual Work submit_internal(Request request) = 0;
  // Advances operations. False if none advanced or another thread is advancing them. If an
  // operation needs new memory, progress() waits for the other ranks, as Work::wait() does. With
  // CoordinatorMode::never all ranks must then call progress() or wait().
  virtual bool progress() = 0;
  // Collective. If tables differ, every rank throws MismatchError with the first difference. If a
  // rank cannot reduce its table, every rank throws UsageError with that rank's reason.
  virtual std::unique_ptr<GradientReducer> make_reducer(std::vector<GradientInfo> table, ReducerOptions options) = 0;
  // Optimizer steps on the device of this rank's gradients. Null where no reducer has needed a device yet.
  virtual std::unique_ptr<StepLauncher> make_step_launcher() = 0;
  // Whether kolo's kernels can be launched on that device: not before make_step_launcher() would be for it, nor in a
  // build without device code. Thread-safe, and takes no lock.
  [[nodiscard]] virtual bool has_kernels(int device) const noexcept = 0;
  // Enqueued in `stream`: the batch's bytes become byte * factor + shift (ChannelTerms), every operation rounded to
  // fp32, and then to its dtype. REQUIRES: has_kernels(stream.device). Throws UsageError for a dtype that it does not
  // name, and for 2^32 pixels. Thread-safe.
  virtual void normalize_images(const ImageBatch& batch, Stream stream) = 0;
  // Returns when the devices have ended all collectives that were enqueued; throws what one of them failed with. At
  // once where there are none. See Context::wait_for_devices.
  virtual void wait_for_devices() = 0;
  // `error` has left training code: peers learn of it, and the round that this rank is in ends as failed on all ranks.
  // Of an error that all ranks have had (a mismatch, a withdrawn operation), only the latter. See Context::run.
  virtual void fail_round(const std::exception& error) noexcept = 0;
};

}  // namespace kolo

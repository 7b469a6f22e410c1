#pragma once
// The engine schedules requests and the reduction of gradients; for bindings of frameworks.
//
//   auto reducer = context.engine().make_reducer({{.name = "weight", .sizes = {512}}}, {});
#include <unistd.h>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "kolo/data/images.h"
#include "kolo/detail/export.h"
#include "kolo/spi/gradient_reducer.h"
#include "kolo/spi/optimizer_step.h"
#include "kolo/spi/round_notices.h"
#include "kolo/spi/step_recorder.h"
#include "kolo/types.h"
#include "kolo/work.h"

namespace KOLO_EXPORT kolo {

// Tells whether an engine still exists, for objects that may outlive it. Thread-safe.
class EngineLifetime {
 public:
  EngineLifetime() = default;  // is_over() is true
  explicit EngineLifetime(std::weak_ptr<const void> engine) : engine_(std::move(engine)) {}
  // True after the engine is destroyed, and in a forked process. Objects that the engine made may then only be
  // destroyed.
  [[nodiscard]] bool is_over() const noexcept { return engine_.expired() || process_ != ::getpid(); }

 private:
  std::weak_ptr<const void> engine_;
  pid_t process_ = ::getpid();
};

// Thread-safe. Owned by its Context. A reducer or launcher that outlives its engine may only be destroyed, and leaks
// its memory.
class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual EngineLifetime lifetime() const noexcept = 0;
  // True after Context::shutdown(): calls that need other ranks throw UsageError.
  [[nodiscard]] virtual bool is_stopped() const noexcept = 0;
  // The number of ranks.
  [[nodiscard]] virtual int size() const noexcept = 0;
  // See Context::submit().
  virtual Work submit(Request request) = 0;
  // As submit(), for kolo's own libraries. REQUIRES: a name that begins with kolo/.
  virtual Work submit_internal(Request request) = 0;
  // Advances operations. Returns false if none advanced or another thread is advancing them. If an
  // operation needs new memory, progress() waits for the other ranks, as Work::wait() does. With
  // CoordinatorMode::never all ranks must then call progress() or wait().
  virtual bool progress() = 0;
  // Collective. If tables differ, every rank throws MismatchError with the first difference. If a
  // rank cannot reduce its table, every rank throws UsageError with that rank's reason.
  virtual std::unique_ptr<GradientReducer> make_reducer(std::vector<GradientInfo> table, ReducerOptions options) = 0;
  // The engine whose reducers an optimizer uses: this one. With Config::sync false: an engine of this rank alone.
  [[nodiscard]] virtual Engine& for_gradients() noexcept = 0;
  // Of the rounds of this engine's reducers. A round without gradients carries none.
  [[nodiscard]] virtual RoundNotices& notices() noexcept = 0;
  // Of this rank's training steps.
  [[nodiscard]] virtual StepRecorder& step_recorder() noexcept = 0;
  // Optimizer steps on the device of this rank's gradients. Null if no reducer has used a device yet.
  virtual std::unique_ptr<StepLauncher> make_step_launcher() = 0;
  // True once a reducer uses that device, in a build with device code: kolo's kernels can then be launched. Takes no
  // lock.
  [[nodiscard]] virtual bool has_kernels(int device) const noexcept = 0;
  // Enqueued in `stream`: converts the bytes of the batch to byte * factor + shift (ChannelTerms). Each operation is
  // rounded to fp32, and the result to the batch's dtype. REQUIRES: has_kernels(stream.device). Throws UsageError for
  // another dtype, and for 2^32 or more pixels.
  virtual void normalize_images(const ImageBatch& batch, Stream stream) = 0;
  // See Context::wait_for_devices().
  virtual void wait_for_devices() = 0;
  // Fails the current round on all ranks, because `error` left training code. The other ranks get PeerFailedError,
  // unless they have the same error already (a mismatch, a cancelled operation). See Context::run().
  virtual void fail_round(const std::exception& error) noexcept = 0;
};

}  // namespace kolo

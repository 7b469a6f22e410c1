#pragma once
// One optimizer step over many tensors: its formula, and its launch on a device.
//
//   if (auto launcher = context.engine().make_step_launcher()) {
//     launcher->launch({.tensors = tensors}, kolo::SgdTerms{.lr = 0.1, .momentum = 0.9}, stream);
//   }
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// With g the gradient, w the weight, m the momentum, and g' = g + weight_decay * w, or g if weight_decay is 0:
//   m = first ? g' : momentum * m + (1 - dampening) * g'        w -= lr * (nesterov ? g' + momentum * m : m)
// and without momentum w -= lr * g'.
struct SgdTerms {
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the momenta have no value yet: they become the gradients
};

// With t the step's number, m and v the moments:
//   w *= 1 - lr * weight_decay
//   m = beta1 * m + (1 - beta1) * g        v = beta2 * v + (1 - beta2) * g * g
//   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
struct AdamwTerms {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  std::int64_t number = 1;  // t, from 1
};

// Arrays of fp32 in device memory, aligned to their elements. All arrays of a tensor have the same element order.
struct StepTensor {
  std::size_t count = 0;           // elements
  const void* gradient = nullptr;  // null: the tensor is not changed
  void* weight = nullptr;
  void* first = nullptr;   // SGD: the momentum, or null. AdamW: the first moment
  void* second = nullptr;  // AdamW: the second moment
};

struct StepBatch {
  // The number of the parameter group. The launcher caches the tensors of each group on the device and updates the
  // cache if they change.
  std::size_t group = 0;
  std::span<const StepTensor> tensors;
  double gradient_scale = 1;  // factor on gradients, in fp32, when they are used. The gradients do not change
  // One fp32 in device memory. If it is not 0, the device skips the step. Null: it never does.
  const float* skip = nullptr;
};

// An asynchronous copy of one float from device to CPU. No call waits for the device, nor does the destructor.
class DeviceScalarFuture {
 public:
  virtual ~DeviceScalarFuture() = default;
  // Empty until the copy is complete. Throws BackendError.
  [[nodiscard]] virtual std::optional<float> poll() = 0;
};

// Optimizer steps by kolo's kernels on one device, one launch for each batch. Each operation is rounded to fp32, in the
// order of the formulas above, as on the CPU. No call waits for the device.
//
// Use from one thread at a time. The caller orders the launches of one group by streams and events.
class StepLauncher {
 public:
  virtual ~StepLauncher() = default;
  // -1 after the Context was destroyed: calls then throw UsageError.
  [[nodiscard]] virtual int device() const noexcept = 0;
  // Enqueued in `stream`, which is of that device and must outlive this object. Throws UsageError for an address that
  // is not aligned, BackendError if the device refuses.
  virtual void launch(const StepBatch& batch, const SgdTerms& terms, Stream stream) = 0;
  virtual void launch(const StepBatch& batch, const AdamwTerms& terms, Stream stream) = 0;
  // Sets `flag`, in device memory, to 1.0 if a gradient of the batch is infinite or NaN; otherwise does not change it.
  virtual void find_nonfinite(const StepBatch& batch, float* flag, Stream stream) = 0;
  // Enqueues a copy of `*value`, in device memory, on `stream`. The result must be destroyed before this launcher.
  [[nodiscard]] virtual std::unique_ptr<DeviceScalarFuture> read(const float* value, Stream stream) = 0;
};

}  // namespace kolo

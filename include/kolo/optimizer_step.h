#pragma once
// One step of an optimizer over many tensors: its terms, and its launch on a device.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kolo/export.h"
#include "kolo/stream.h"

namespace KOLO_EXPORT kolo {

// With g the gradient, w the weight, m the momentum, and g' = g + weight_decay * w, or g where weight_decay is 0:
//   m = first ? g' : momentum * m + (1 - dampening) * g'        w -= lr * (nesterov ? g' + momentum * m : m)
// and without momentum w -= lr * g'.
struct SgdTerms {
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the momenta hold nothing yet: they become the gradients
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
  std::int64_t number = 1;  // from 1; the moments are zero before
};

// Arrays of fp32 in memory of the device, aligned to their elements, alike in the order of these.
struct StepTensor {
  std::size_t count = 0;           // elements
  const void* gradient = nullptr;  // null: this tensor is left as it is
  void* weight = nullptr;
  void* first = nullptr;   // SGD: the momentum, if it has one. AdamW: the first moment
  void* second = nullptr;  // AdamW: the second moment
};

struct StepBatch {
  // Whose tensors these are. What the device has to know of them is kept there between steps: it is sent once, their
  // addresses when they differ from last time's, and all of it when their counts do.
  std::size_t place = 0;
  std::span<const StepTensor> tensors;
  double gradient_scale = 1;  // what gradients are multiplied by, in fp32, before they are used. They stay as they are
  // One fp32 in the device's memory. Where the device finds it not to be 0 it leaves the step out. Null: it never does.
  const float* skip = nullptr;
};

// A number on a device that the host learns later, by polling: neither looking nor destroying it waits for the device.
class LateValue {
 public:
  virtual ~LateValue() = default;
  // Nothing: the device has not come to it. Throws BackendError.
  [[nodiscard]] virtual std::optional<float> look() = 0;
};

// Optimizer steps by kolo's kernels on one device, a batch in one launch. Every operation is rounded to fp32, in the
// order that is written above, as on the host. Nothing waits for the device.
//
// One thread at a time. The caller orders the streams of one place: each launch behind the one before.
class StepLauncher {
 public:
  virtual ~StepLauncher() = default;
  // -1 once the Context has been destroyed: calls throw UsageError then.
  [[nodiscard]] virtual int device() const noexcept = 0;
  // Enqueued in `stream`, which is of that device and lives as long as this. Throws UsageError for an address that is
  // not aligned, BackendError where the device refuses.
  virtual void launch(const StepBatch& batch, const SgdTerms& terms, Stream stream) = 0;
  virtual void launch(const StepBatch& batch, const AdamwTerms& terms, Stream stream) = 0;
  // `flag`, in the device's memory, becomes 1.0 if a gradient of the batch is infinite or no number; else it stays.
  virtual void find_nonfinite(const StepBatch& batch, float* flag, Stream stream) = 0;
  // What is at `value`, in the device's memory, when the device has come to here in `stream`. Must be
  // destroyed before this launcher.
  [[nodiscard]] virtual std::unique_ptr<LateValue> read(const float* value, Stream stream) = 0;
};

}  // namespace kolo

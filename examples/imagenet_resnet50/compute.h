#pragma once
// Where a rank computes, and in what precision.
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "kolo/context.h"
#include "options.h"

namespace imagenet {

struct Compute {
  c10::Device device = c10::DeviceType::CPU;
  std::optional<c10::ScalarType> amp;  // what autocast computes in, where it may
};

// With --device cuda: loads LibTorch's CUDA backend and takes this rank's GPU. Before anything else of LibTorch.
// Collective; throws kolo::UsageError on all ranks when one of them has no GPU.
Compute make_compute(kolo::Context& context, const Options& options);

// Until the device has done what this thread has enqueued in its current stream. At once on the CPU.
void wait_for(const c10::Device& device);

// Automatic mixed precision while it lives: forward and loss, not backward, which follows the types of forward. The
// casts of weights are kept until its end, because the weights change after it.
class Autocast {
 public:
  explicit Autocast(const Compute& compute);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType type_;
  bool active_;
  bool enabled_before_ = false;
  c10::ScalarType dtype_before_ = c10::ScalarType::Undefined;
};

}  // namespace imagenet

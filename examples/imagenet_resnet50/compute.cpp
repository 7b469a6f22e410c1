#include "compute.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <string>

#include "kolo/error.h"
#include "kolo/torch/cuda.h"

namespace imagenet {

Compute make_compute(kolo::Context& context, const Options& options) {
  Compute compute;
  if (options.amp != Amp::off) compute.amp = options.amp == Amp::bf16 ? at::kBFloat16 : at::kHalf;
  if (options.device == DeviceKind::cpu) return compute;
  try {
    compute.device = kolo::use_cuda(context);
  } catch (const kolo::UsageError& error) {
    throw kolo::UsageError(std::string("--device cuda: ") + error.what() + "; --device cpu needs none");
  }
  // All batches have one size, so that the fastest convolutions are worth looking for.
  at::globalContext().setBenchmarkCuDNN(true);
  return compute;
}

void wait_for(const c10::Device& device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl backend(device.type());
  backend.synchronizeStream(backend.getStream(device));
}

Autocast::Autocast(const Compute& compute) : type_(compute.device.type()), active_(compute.amp.has_value()) {
  if (!active_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(type_);
  dtype_before_ = at::autocast::get_autocast_dtype(type_);
  at::autocast::set_autocast_dtype(type_, *compute.amp);
  at::autocast::set_autocast_enabled(type_, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, enabled_before_);
  at::autocast::set_autocast_dtype(type_, dtype_before_);
}

}  // namespace imagenet

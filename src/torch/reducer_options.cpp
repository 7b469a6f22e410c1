#include "torch/reducer_options.h"

#include <algorithm>
#include <string>

#include "kolo/error.h"
#include "kolo/torch/fused_optimizer.h"
#include "torch/optimizer_settings.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

void check(const DistributedOptions& options, const torch::optim::Optimizer& optimizer,
           const std::optional<c10::Device>& device) {
  if (options.op != ReduceOp::sum && options.op != ReduceOp::average) {
    throw UsageError("gradients are reduced by sum or average, not " + std::string(name_of(options.op)));
  }
  if (options.passes_per_step < 1) {
    throw UsageError("passes_per_step is " + std::to_string(options.passes_per_step) + "; it must be 1 or more");
  }
  if (options.compare_weights_every < 0) {
    throw UsageError("compare_weights_every is " + std::to_string(options.compare_weights_every) +
                     "; it must be 0 or more");
  }
  if (device.has_value() && (options.shared_gradients || options.overlap_update)) {
    throw UsageError(
        std::string(options.shared_gradients ? "shared_gradients is for gradients" : "overlap_update is for weights") +
        " in the host's memory; parameters are on " + device->str());
  }
  if (options.overlap_update && !options.compare_weights) {
    throw UsageError(
        "overlap_update needs compare_weights: after a step that fails ranks may have updated different weights");
  }
  if (options.overlap_update && dynamic_cast<const FusedOptimizer*>(&optimizer) == nullptr) {
    throw UsageError("overlap_update is for kolo's own optimizers: take FusedSGD or FusedAdamW");
  }
}

}  // namespace

ReducerOptions reducer_options(const DistributedOptions& options, const torch::optim::Optimizer& optimizer,
                               const std::optional<c10::Device>& device) {
  check(options, optimizer, device);
  ReducerOptions result;
  result.device = device.has_value() ? device->index() : -1;
  result.op = options.op;
  result.prescale = options.prescale;
  result.postscale = options.postscale;
  result.bucket_bytes = options.bucket_bytes;
  result.contributions_stay = true;
  result.in_place_from = options.shared_gradients ? std::max<std::size_t>(options.shared_from, 1) : 0;
  if (device) result.release_cached_memory = [device] { release_cached(*device); };
  result.settings = "passes_per_step=" + std::to_string(options.passes_per_step) +
                    ", compare_weights=" + std::to_string(options.compare_weights) +
                    ", compare_weights_every=" + std::to_string(options.compare_weights_every) +
                    ", overlap_update=" + std::to_string(options.overlap_update);
  result.current_settings = [&optimizer] { return settings_of(optimizer); };
  return result;
}

}  // namespace kolo

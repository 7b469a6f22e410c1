#include "kolo/torch/grad_scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "kolo/error.h"
#include "kolo/torch/fused_optimizer.h"
#include "kolo/torch/ops.h"

namespace kolo {
namespace {

void check(const GradScalerOptions& options) {
  // Negated, so that what is not a number is refused too.
  if (!(options.growth_factor > 1)) throw UsageError("GradScaler: growth_factor must be above 1");
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1)) {
    throw UsageError("GradScaler: backoff_factor must be between 0 and 1");
  }
  if (options.growth_interval < 1) throw UsageError("GradScaler: growth_interval must be 1 or more");
}

struct Gradients {
  c10::Device device;
  std::vector<at::Tensor> tensors;
};

// One entry for each device and type on it, devices together.
std::vector<Gradients> gradients_of(const torch::optim::Optimizer& optimizer) {
  std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType>, std::vector<at::Tensor>> sorted;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const at::Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (gradient.layout() != c10::kStrided) throw UsageError("GradScaler: a gradient is sparse");
      sorted[{gradient.device().type(), gradient.device().index(), gradient.scalar_type()}].push_back(gradient);
    }
  }
  std::vector<Gradients> result;
  for (auto& [key, tensors] : sorted) result.push_back({tensors.front().device(), std::move(tensors)});
  return result;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options, Context* context) : options_(options), context_(context) {
  check(options);
  load({options.init_scale, 0});
}

void GradScaler::load(const State& state) {
  if (!std::isfinite(state.scale) || state.scale <= 0) {
    throw UsageError("GradScaler: the scale must be positive and finite, not " + std::to_string(state.scale));
  }
  if (state.good_steps < 0) throw UsageError("GradScaler: good_steps must not be negative");
  state_ = state;
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const { return loss.mul(state_.scale); }

void GradScaler::unscale(torch::optim::Optimizer& optimizer, Stage& stage) const {
  const c10::NoGradGuard no_grad;
  for (const auto& [device, tensors] : gradients_of(optimizer)) {
    const auto options = c10::TensorOptions().device(device).dtype(c10::kFloat);
    if (stage.overflows.empty() || stage.overflows.back().device() != device) {
      stage.overflows.push_back(at::zeros({}, options));
    }
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, stage.overflows.back(),
                                                   at::full({}, 1.0 / state_.scale, options));
  }
  stage.unscaled = true;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  Stage& stage = stages_[&optimizer];
  if (stage.stepped) throw UsageError("GradScaler: unscale_() after step() of the same optimizer; call update() first");
  if (stage.unscaled) throw UsageError("GradScaler: unscale_() a second time since update()");
  unscale(optimizer, stage);
}

// What was noted in a round before this one belongs to a step that nobody finished.
void GradScaler::close_round(DistributedOptimizer& optimizer) {
  optimizer.synchronize();
  Stage& stage = stages_[&optimizer.optimizer()];
  if (stage.round && *stage.round != optimizer.rounds()) stage = Stage();
  stage.round = optimizer.rounds();
}

void GradScaler::unscale_(DistributedOptimizer& optimizer) {
  close_round(optimizer);
  unscale_(optimizer.optimizer());
}

// Instead of unscale(), for an optimizer that unscales in passing. False: this one does not.
bool GradScaler::search(torch::optim::Optimizer& optimizer, Stage& stage) {
  auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  if (fused == nullptr || !fused->launches_all()) return false;
  const auto gradients = gradients_of(optimizer);  // on one device, and of one type
  const auto options = c10::TensorOptions().device(gradients.front().device).dtype(c10::kFloat);
  stage.overflows.push_back(at::zeros({}, options));
  fused->find_nonfinite(stage.overflows.back());
  stage.in_update = true;
  return true;
}

GradScaler::Stage& GradScaler::stage_for_step(torch::optim::Optimizer& optimizer) {
  Stage& stage = stages_[&optimizer];
  if (stage.stepped) throw UsageError("GradScaler: step() a second time since update()");
  if (!stage.unscaled && !search(optimizer, stage)) unscale(optimizer, stage);
  return stage;
}

bool GradScaler::overflowed(const Stage& stage) const {
  double here = 0;
  for (const auto& overflow : stage.overflows) here = std::max(here, overflow.item<double>());  // waits for the device
  if (context_ == nullptr || context_->size() == 1) return here != 0;
  return allreduce_metrics(*context_, {here}, "kolo/grad_scaler", ReduceOp::max)[0] != 0;
}

// Whether this step is taken.
bool GradScaler::decide(torch::optim::Optimizer& optimizer) {
  Stage& stage = stage_for_step(optimizer);
  bool overflow = false;
  try {
    overflow = overflowed(stage);
  } catch (...) {  // a rank that failed: this step is over
    stages_.erase(&optimizer);
    throw;
  }
  stage.stepped = true;
  overflow_ |= overflow;
  return !overflow;
}

// `step` updates the weights.
template <class Step>
void GradScaler::take(torch::optim::Optimizer& optimizer, const Step& step) {
  auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  if (fused == nullptr || !stages_[&optimizer].in_update) return step();
  struct Scaled {
    FusedOptimizer& optimizer;
    ~Scaled() { optimizer.set_gradient_scale(1); }
  } scaled{*fused};
  fused->set_gradient_scale(1 / state_.scale);
  step();
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!decide(optimizer)) return false;
  take(optimizer, [&] { optimizer.step(); });
  return true;
}

bool GradScaler::step(DistributedOptimizer& optimizer) {
  close_round(optimizer);
  if (!decide(optimizer.optimizer())) {
    optimizer.skip();
    return false;
  }
  take(optimizer.optimizer(), [&] { optimizer.step(); });
  return true;
}

void GradScaler::update() {
  bool stepped = false;
  for (const auto& [optimizer, stage] : stages_) stepped |= stage.stepped;
  if (!stepped) throw UsageError("GradScaler: update() without a step() before it");
  if (overflow_) {
    // Below, 1/scale would be infinite in fp32.
    const double smallest = std::numeric_limits<float>::min();
    state_ = {std::max(state_.scale * options_.backoff_factor, smallest), 0};
  } else if (++state_.good_steps >= options_.growth_interval) {
    // A scale that fp32 cannot hold stays where it is.
    const double grown = state_.scale * options_.growth_factor;
    state_ = {grown <= std::numeric_limits<float>::max() ? grown : state_.scale, 0};
  }
  stages_.clear();
  overflow_ = false;
}

}  // namespace kolo

#include "kolo/torch/grad_scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "kolo/spi/fused_optimizer.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {

// Whether a gradient of any rank is infinite or no number: the devices find it and agree on it while the hosts go on.
class OverflowVote {
 public:
  // `context`: null, or of one rank: no rank is asked. Else collective, as take() is. `like`: on the device.
  OverflowVote(Context* context, const FusedOptimizer& optimizer, const at::Tensor& like)
      : flag_(at::zeros({1}, like.options().dtype(c10::kFloat).requires_grad(false))) {
    if (context == nullptr || context->size() == 1) return;
    ReducerOptions options;
    options.op = ReduceOp::sum;
    options.device = optimizer.shared_launcher()->device();
    reducer_ = context->engine().make_reducer({{"kolo/overflow", {1}, {1}, DType::f32, true}}, options);
  }

  // Enqueued in the current stream, behind which the answer is at the returned address, in the device's memory, until
  // the next call: 0 where all gradients are finite. The flags are summed as one more gradient, so whatever reduces
  // gradients reduces them. REQUIRES: launches_all(), or no gradient at all. Throws what GradientReducer::finish
  // throws.
  [[nodiscard]] const float* take(FusedOptimizer& optimizer) {
    flag_.zero_();
    if (optimizer.launches_all()) optimizer.find_nonfinite(flag_);
    if (reducer_ == nullptr) return flag_.const_data_ptr<float>();
    reducer_->contribute(0, flag_.const_data_ptr<float>(), stream());
    reducer_->finish(stream());
    return reinterpret_cast<const float*>(reducer_->gradient(0).data());
  }
  // The one that is current on the device.
  [[nodiscard]] Stream stream() const { return to_stream(current_stream(flag_.device())); }

 private:
  at::Tensor flag_;  // this rank's
  std::unique_ptr<GradientReducer> reducer_;
};

namespace {

constexpr std::chrono::microseconds kNap{20};

void check(const GradScalerOptions& options) {
  // Negated, so that what is not a number is refused too.
  if (!(options.growth_factor > 1))
    throw UsageError("GradScaler: growth_factor is " + std::to_string(options.growth_factor) + "; it must be above 1");
  if (!(options.backoff_factor > 0 && options.backoff_factor < 1)) {
    throw UsageError("GradScaler: backoff_factor is " + std::to_string(options.backoff_factor) +
                     "; it must be between 0 and 1");
  }
  if (options.growth_interval < 1)
    throw UsageError("GradScaler: growth_interval is " + std::to_string(options.growth_interval) +
                     "; it must be 1 or more");
}

struct Gradients {
  c10::Device device;
  std::vector<at::Tensor> tensors;
};

// One entry for each device and type on it, devices together.
std::vector<Gradients> gradients_of(const torch::optim::Optimizer& optimizer) {
  std::size_t number = 0;
  std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType>, std::vector<at::Tensor>> sorted;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const at::Tensor& gradient = parameter.grad();
      ++number;
      if (!gradient.defined()) continue;
      auto trouble = trouble_with(gradient, Access::write);
      if (trouble.empty() && !gradient.is_floating_point()) trouble = "has no floating-point type";
      if (!trouble.empty()) {
        throw UsageError("GradScaler: the gradient of parameter " + std::to_string(number) + " " + trouble);
      }
      sorted[{gradient.device().type(), gradient.device().index(), gradient.scalar_type()}].push_back(gradient);
    }
  }
  std::vector<Gradients> result;
  for (auto& [key, tensors] : sorted) result.push_back({tensors.front().device(), std::move(tensors)});
  return result;
}

}  // namespace

class GradScaler::Impl {
 public:
  // `context`: null for one rank alone.
  Impl(const GradScalerOptions& options, Context* context);
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss);
  void unscale_(torch::optim::Optimizer& optimizer);
  bool step(torch::optim::Optimizer& optimizer);
  void step_async(DistributedOptimizer& distributed);
  void update();
  [[nodiscard]] const State& state();
  void load(const State& state);

 private:
  struct Stage {
    bool unscaled = false, stepped = false;
    bool in_update = false;  // the update unscales
    // The number of rounds of a DistributedOptimizer that had ended. Empty if only the optimizer in it was unscaled.
    std::optional<std::uint64_t> round;
    std::vector<at::Tensor> overflows;  // one for each device: not 0 if a gradient was not finite
  };
  void unscale(torch::optim::Optimizer& optimizer, Stage& stage) const;
  [[nodiscard]] static bool search(torch::optim::Optimizer& optimizer, Stage& stage);
  template <class Step>
  void take(torch::optim::Optimizer& optimizer, const Step& step, const float* skip = nullptr);
  template <class Decision>
  auto or_forget(torch::optim::Optimizer& optimizer, const Decision& decision);
  [[nodiscard]] Context& context() const;
  // `of`: the name of the DistributedOptimizer, or empty, so that threads of a rank can ask for several at a time.
  [[nodiscard]] bool on_any_rank(bool here, const std::string& of) const;
  bool overflowed(const Stage& stage, const std::string& of) const;
  void close_round(DistributedOptimizer& optimizer);
  Stage& stage_of(torch::optim::Optimizer& optimizer);
  bool decide(torch::optim::Optimizer& optimizer, const std::string& of);
  [[nodiscard]] OverflowVote* vote_of(const DistributedOptimizer& distributed);
  void change_scale();
  [[nodiscard]] float wait_for(DeviceScalarFuture& value) const;
  void settle();

  GradScalerOptions options_;
  Context* context_;
  EngineLifetime lifetime_;
  State state_;
  std::map<const torch::optim::Optimizer*, Stage> stages_;  // since the last update()
  bool overflow_ = false;                                   // in one of them
  // The vote of step_async() for each optimizer; null: as step(). Not by address, because on some ranks a new optimizer
  // may get the address of a destroyed one.
  using Watched = std::weak_ptr<torch::optim::Optimizer>;
  std::map<Watched, std::unique_ptr<OverflowVote>, std::owner_less<Watched>> votes_;
  // A step that the device decides.
  struct Late {
    std::shared_ptr<StepLauncher> launcher;  // of the value
    std::unique_ptr<DeviceScalarFuture> overflow;
    Watched optimizer;
  };
  std::deque<Late> late_;
  bool late_update_ = false;  // update() was called and waits for late_
};

GradScaler::Impl::Impl(const GradScalerOptions& options, Context* context) : options_(options), context_(context) {
  if (context != nullptr) lifetime_ = context->engine().lifetime();
  check(options);
  load({options.init_scale, 0});
}

void GradScaler::Impl::load(const State& state) {
  if (!std::isfinite(state.scale) || state.scale <= 0) {
    throw UsageError("GradScaler::load(): scale is " + std::to_string(state.scale) +
                     "; it must be positive and finite");
  }
  if (state.good_steps < 0)
    throw UsageError("GradScaler::load(): good_steps is " + std::to_string(state.good_steps) +
                     "; it must be 0 or more");
  late_.clear();
  late_update_ = false;
  state_ = state;
}

at::Tensor GradScaler::Impl::scale(const at::Tensor& loss) {
  settle();
  return loss.mul(state_.scale);
}

const GradScaler::State& GradScaler::Impl::state() {
  settle();
  return state_;
}

void GradScaler::Impl::unscale(torch::optim::Optimizer& optimizer, Stage& stage) const {
  const c10::NoGradGuard no_grad;
  for (const auto& [device, tensors] : gradients_of(optimizer)) {
    const auto options = c10::TensorOptions().device(device).dtype(c10::kFloat);
    if (stage.overflows.empty() || stage.overflows.back().device() != device) {
      stage.overflows.push_back(at::zeros({}, options));
    }
    std::vector<at::Tensor> plain;
    for (const at::Tensor& tensor : tensors) plain.push_back(tensor.is_inference() ? tensor.clone() : resolved(tensor));
    at::_amp_foreach_non_finite_check_and_unscale_(plain, stage.overflows.back(),
                                                   at::full({}, 1.0 / state_.scale, options));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (!plain[i].is_same(tensors[i])) write_back(tensors[i], plain[i]);
    }
  }
  stage.unscaled = true;
}

void GradScaler::Impl::unscale_(torch::optim::Optimizer& optimizer) {
  if (auto* const distributed = dynamic_cast<DistributedOptimizer*>(&optimizer); distributed != nullptr) {
    close_round(*distributed);
    return unscale_(distributed->optimizer());
  }
  settle();
  Stage& stage = stages_[&optimizer];
  if (stage.stepped) throw UsageError("GradScaler: unscale_() after step() of the same optimizer; call update() first");
  if (stage.unscaled)
    throw UsageError("GradScaler: second unscale_() of an optimizer since update(); call update() first");
  unscale(optimizer, stage);
}

// What was noted in a round before this one belongs to a step that nobody finished, or that update() has followed.
void GradScaler::Impl::close_round(DistributedOptimizer& optimizer) {
  Stage& stage = stages_[&optimizer.optimizer()];
  if (stage.stepped && stage.round == optimizer.rounds()) {  // synchronize() would begin another round
    throw UsageError("GradScaler: unscale_() or step() after step() of the same optimizer; call update() first");
  }
  optimizer.synchronize();
  if (stage.round && *stage.round != optimizer.rounds()) stage = Stage();
  stage.round = optimizer.rounds();
}

// Instead of unscale(), for an optimizer that unscales in passing. False: this one does not.
bool GradScaler::Impl::search(torch::optim::Optimizer& optimizer, Stage& stage) {
  auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  if (fused == nullptr || !fused->launches_all()) return false;
  const auto gradients = gradients_of(optimizer);  // on one device, and of one type
  const auto options = c10::TensorOptions().device(gradients.front().device).dtype(c10::kFloat);
  stage.overflows.push_back(at::zeros({}, options));
  fused->find_nonfinite(stage.overflows.back());
  stage.in_update = true;
  return true;
}

// Of a step that begins.
GradScaler::Impl::Stage& GradScaler::Impl::stage_of(torch::optim::Optimizer& optimizer) {
  settle();
  Stage& stage = stages_[&optimizer];
  if (stage.stepped) throw UsageError("GradScaler: second step() of an optimizer since update(); call update() first");
  return stage;
}

Context& GradScaler::Impl::context() const {
  if (!lifetime_.is_over()) return *context_;
  throw UsageError(
      "GradScaler: its Context was destroyed. Keep the Context alive as long as the scaler, or load() an earlier "
      "state into a scaler of another Context");
}

bool GradScaler::Impl::on_any_rank(bool here, const std::string& of) const {
  if (context_ == nullptr || context().size() == 1) return here;
  const auto flag = std::make_shared<double>(here ? 1.0 : 0.0);
  Request request;
  request.name = "kolo/grad_scaler" + (of.empty() ? "" : "/" + of);
  request.dtype = DType::f64;
  request.sizes = {1};
  request.op = ReduceOp::max;
  request.input = flag.get();
  request.output = flag.get();
  request.keep = flag;
  context_->engine().submit_internal(std::move(request)).wait();
  return *flag != 0;
}

// Where a rank has failed the step is over.
template <class Decision>
auto GradScaler::Impl::or_forget(torch::optim::Optimizer& optimizer, const Decision& decision) {
  try {
    return decision();
  } catch (...) {
    stages_.erase(&optimizer);
    throw;
  }
}

bool GradScaler::Impl::overflowed(const Stage& stage, const std::string& of) const {
  double here = 0;
  for (const auto& overflow : stage.overflows) here = std::max(here, overflow.item<double>());  // waits for the device
  return on_any_rank(here != 0, of);
}

// Whether this step is taken.
bool GradScaler::Impl::decide(torch::optim::Optimizer& optimizer, const std::string& of) {
  Stage& stage = stage_of(optimizer);
  if (!stage.unscaled && !search(optimizer, stage)) unscale(optimizer, stage);
  const bool overflow = or_forget(optimizer, [&] { return overflowed(stage, of); });
  stage.stepped = true;
  overflow_ |= overflow;
  return !overflow;
}

// `step` updates the weights, unless the device finds at `skip` that it is to leave them.
template <class Step>
void GradScaler::Impl::take(torch::optim::Optimizer& optimizer, const Step& step, const float* skip) {
  auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  if (fused == nullptr || !stages_[&optimizer].in_update) return step();
  struct Scaled {
    FusedOptimizer& optimizer;
    ~Scaled() {
      optimizer.set_gradient_scale(1);
      optimizer.set_skip(nullptr);
    }
  } scaled{*fused};
  fused->set_gradient_scale(1 / state_.scale);
  fused->set_skip(skip);
  step();
}

// Agreed on once: ranks that went different ways would wait for each other.
OverflowVote* GradScaler::Impl::vote_of(const DistributedOptimizer& distributed) {
  const auto optimizer = distributed.watch_optimizer().lock();
  auto* const fused = dynamic_cast<FusedOptimizer*>(optimizer.get());
  std::erase_if(votes_, [](const auto& vote) { return vote.first.expired(); });
  const auto known = votes_.find(optimizer);
  if (context_ != nullptr) static_cast<void>(context());  // a vote is taken among its ranks
  if (known != votes_.end()) {
    if (known->second != nullptr && !fused->launches_all() && !gradients_of(*optimizer).empty()) {
      throw UsageError(
          "GradScaler: step_async(): kolo's kernels no longer take all gradients, as they did in the first such step. "
          "Use step()");
    }
    return known->second.get();
  }
  const bool can = fused != nullptr && fused->launches_all();
  std::unique_ptr<OverflowVote> vote;
  if (!on_any_rank(!can, distributed.name())) {
    vote = std::make_unique<OverflowVote>(context_, *fused, gradients_of(*optimizer).front().tensors.front());
  }
  return (votes_[optimizer] = std::move(vote)).get();
}

void GradScaler::Impl::step_async(DistributedOptimizer& distributed) {
  close_round(distributed);
  torch::optim::Optimizer& optimizer = distributed.optimizer();
  Stage& stage = stage_of(optimizer);
  OverflowVote* const vote = stage.unscaled ? nullptr : vote_of(distributed);
  auto* const fused = dynamic_cast<FusedOptimizer*>(&optimizer);
  const auto launcher = fused == nullptr ? nullptr : fused->shared_launcher();
  if (vote == nullptr || launcher == nullptr) {  // no launcher: wrapped anew while nothing of it required a gradient
    step(distributed);
    return;
  }
  const float* const overflow = or_forget(optimizer, [&] { return vote->take(*fused); });
  stage.stepped = stage.in_update = true;
  take(
      optimizer, [&] { distributed.step(); }, overflow);
  late_.push_back({launcher, launcher->read(overflow, vote->stream()), distributed.watch_optimizer()});
}

float GradScaler::Impl::wait_for(DeviceScalarFuture& value) const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + (context_ == nullptr ? Config().timeout : context().config().timeout);
  for (;;) {
    if (const auto come = value.poll()) return *come;
    if (Clock::now() > deadline) {
      throw TimeoutError({}, "GradScaler: timeout: the device of this rank has not finished a step");
    }
    if (context_ != nullptr) context().engine().progress();  // the device may wait for a rank that is lost
    std::this_thread::sleep_for(kNap);
  }
}

// Waits for what step_async() has left to the device. What it has not come to when it throws is waited for again.
void GradScaler::Impl::settle() {
  if (!late_update_) return;
  while (!late_.empty()) {
    const bool left_out = wait_for(*late_.front().overflow) != 0;
    const auto optimizer = late_.front().optimizer.lock();
    late_.pop_front();
    if (!left_out) continue;
    overflow_ = true;
    if (auto* const fused = dynamic_cast<FusedOptimizer*>(optimizer.get()); fused != nullptr) fused->undo();
  }
  late_update_ = false;
  change_scale();
}

bool GradScaler::Impl::step(torch::optim::Optimizer& optimizer) {
  auto* const distributed = dynamic_cast<DistributedOptimizer*>(&optimizer);
  if (distributed == nullptr) {
    if (!decide(optimizer, {})) return false;
    take(optimizer, [&] { optimizer.step(); });
    return true;
  }
  close_round(*distributed);
  torch::optim::Optimizer& wrapped = distributed->optimizer();
  if (!decide(wrapped, distributed->name())) {
    distributed->skip();
    return false;
  }
  take(wrapped, [&] { distributed->step(); });
  return true;
}

void GradScaler::Impl::update() {
  bool stepped = false;
  for (const auto& [optimizer, stage] : stages_) stepped |= stage.stepped;
  if (!stepped) throw UsageError("GradScaler: update() without a step() since the last update()");
  stages_.clear();
  late_update_ = !late_.empty();
  if (!late_update_) change_scale();
}

void GradScaler::Impl::change_scale() {
  if (overflow_) {
    // Below, 1/scale would be infinite in fp32.
    const double smallest = std::numeric_limits<float>::min();
    state_ = {std::max(state_.scale * options_.backoff_factor, smallest), 0};
  } else if (++state_.good_steps >= options_.growth_interval) {
    // A scale that fp32 cannot hold stays where it is.
    const double grown = state_.scale * options_.growth_factor;
    state_ = {grown <= std::numeric_limits<float>::max() ? grown : state_.scale, 0};
  }
  overflow_ = false;
}

GradScaler::GradScaler(Context& context, const GradScalerOptions& options)
    : impl_(std::make_unique<Impl>(options, &context)) {}
GradScaler::GradScaler(const GradScalerOptions& options) : impl_(std::make_unique<Impl>(options, nullptr)) {}
GradScaler::~GradScaler() = default;
GradScaler::GradScaler(GradScaler&&) noexcept = default;
GradScaler& GradScaler::operator=(GradScaler&&) noexcept = default;

at::Tensor GradScaler::scale(const at::Tensor& loss) { return impl_->scale(loss); }
void GradScaler::unscale_(torch::optim::Optimizer& optimizer) { impl_->unscale_(optimizer); }
bool GradScaler::step(torch::optim::Optimizer& optimizer) { return impl_->step(optimizer); }
void GradScaler::step_async(DistributedOptimizer& optimizer) { impl_->step_async(optimizer); }
void GradScaler::update() { impl_->update(); }
const GradScaler::State& GradScaler::state() { return impl_->state(); }
void GradScaler::load(const State& state) { impl_->load(state); }

}  // namespace kolo

#include "kolo/torch/distributed_optimizer.h"
#include "kolo/spi/engine.h"

#include <c10/core/GradMode.h>

#include "kolo/error.h"
#include "torch/execution_environment.h"
#include "torch/gradient_binding.h"
#include "torch/param_group_sync.h"

namespace kolo {
namespace {

torch::optim::Optimizer& checked(const std::shared_ptr<torch::optim::Optimizer>& optimizer) {
  if (optimizer == nullptr) throw UsageError("DistributedOptimizer: the pointer to the optimizer is null");
  if (dynamic_cast<DistributedOptimizer*>(optimizer.get()) != nullptr) {
    throw UsageError("DistributedOptimizer: the optimizer to wrap is a DistributedOptimizer itself");
  }
  return *optimizer;
}

// Ranks that do not reduce gradients have no use for gradients in shared memory.
DistributedOptions options_for(const Context& context, DistributedOptions options) {
  if (!context.config().sync && context.size() > 1) options.shared_gradients = false;
  return options;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(Context& context, Wrapped&& wrapped, DistributedOptions options)
    : DistributedOptimizer(context.engine().for_gradients(), std::move(wrapped.optimizer), wrapped.parameters,
                           options_for(context, options)) {
  warn_of_different_environments(context, name_);
  StepRecorder& recorder = context.engine().step_recorder();
  if (!recorder.is_on()) return;
  for (const auto& [name, value] : execution_environment()) recorder.describe(name, value);
  recorder.describe("device", c10::DeviceTypeName(wrapped.parameters.front().second.device().type(), true));
  recorder.describe("optimizers", std::to_string(std::stoul(name_.substr(name_.find('/') + 1)) + 1));
}

DistributedOptimizer::DistributedOptimizer(Engine& engine, std::shared_ptr<torch::optim::Optimizer> optimizer,
                                           const NamedTensors& parameters, DistributedOptions options)
    : Optimizer(std::vector<torch::optim::OptimizerParamGroup>(), checked(optimizer).defaults().clone()),
      optimizer_(std::move(optimizer)),
      binding_(std::make_shared<GradientBinding>(engine, optimizer_, parameters, options)),
      groups_(std::make_unique<ParamGroupSync>(param_groups_, *optimizer_)),
      name_(binding_->name()) {
  binding_->attach();
}

DistributedOptimizer::~DistributedOptimizer() { detach(); }

at::Tensor DistributedOptimizer::step(LossClosure closure) {
  groups_->reconcile();
  if (!binding_) {
    return optimizer_->step(std::move(closure));
  }
  at::Tensor loss;
  if (closure) {
    bool again = false;
    std::optional<RecordedPart> update;
    binding_->record_update(update);
    loss = optimizer_->step([&] {
      update.reset();
      if (again) binding_->reopen();  // whether this evaluation computes gradients here or not
      again = true;
      at::Tensor value = closure();
      synchronize();  // unless the closure has, to clip
      binding_->record_update(update);
      return value;
    });
  } else {
    if (binding_->closed()) {
      binding_->refuse_unreduced_newcomers();
    } else {
      binding_->close_round(GradientBinding::Before::step);
    }
    const auto part = binding_->record(StepPart::update);
    loss = optimizer_->step();
  }
  binding_->stepped(GradientBinding::Outcome::updated);
  return loss;
}

void DistributedOptimizer::synchronize() {
  groups_->reconcile();
  if (binding_ && !binding_->closed()) {
    binding_->close_round(GradientBinding::Before::look);
  }
}

std::uint64_t DistributedOptimizer::rounds() const noexcept { return binding_ ? binding_->rounds() : 0; }

void DistributedOptimizer::skip() {
  synchronize();
  if (binding_) {
    binding_->stepped(GradientBinding::Outcome::left_out);
  }
}

void DistributedOptimizer::zero_grad(bool set_to_none) {
  groups_->reconcile();
  if (binding_) {
    binding_->reopen();
  }
  // torch's zero_grad() detaches each gradient in place, which it refuses for views, as of a flat buffer.
  const c10::NoGradGuard no_grad;
  for (const auto& group : optimizer_->param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      if (set_to_none) {
        gradient.reset();
        continue;
      }
      if (gradient.requires_grad()) gradient.detach_();
      gradient.zero_();
    }
  }
}

void DistributedOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group,
                                           const NamedTensors& parameters) {
  groups_->reconcile();
  if (binding_) {
    binding_->add_names(parameters);
  }
  optimizer_->add_param_group(group);
  groups_->reconcile();
}

std::vector<torch::optim::OptimizerParamGroup>& DistributedOptimizer::param_groups() {
  groups_->reconcile();
  return param_groups_;
}

const std::vector<torch::optim::OptimizerParamGroup>& DistributedOptimizer::param_groups() const {
  groups_->reconcile();
  return param_groups_;
}

torch::optim::Optimizer& DistributedOptimizer::optimizer() {
  groups_->reconcile();
  return *optimizer_;
}

void DistributedOptimizer::save(torch::serialize::OutputArchive& archive) const {
  groups_->reconcile();
  optimizer_->save(archive);
}

void DistributedOptimizer::load(torch::serialize::InputArchive& archive) {
  groups_->reconcile();  // then the loaded options are the only change
  optimizer_->load(archive);
  groups_->reconcile();
}

void DistributedOptimizer::detach() noexcept {
  if (!binding_) {
    return;
  }
  try {
    groups_->reconcile();
  } catch (const std::exception&) {  // both sides were changed: each keeps its own
  }
  try {
    binding_->detach();
  } catch (...) {  // no memory for the copies: gradients that would dangle
    optimizer_->zero_grad();
  }
  binding_.reset();
}

DistributedOptimizer::NoSync::NoSync(DistributedOptimizer& optimizer) : binding_(optimizer.binding_) {
  if (binding_) {
    binding_->enter_no_sync();
  }
}

DistributedOptimizer::NoSync::~NoSync() {
  if (binding_) {
    binding_->leave_no_sync();
  }
}

}  // namespace kolo

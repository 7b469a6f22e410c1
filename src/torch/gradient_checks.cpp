// Checks of a round: gradients that were changed too late or belong to one rank, learning rates and weights that differ
// between ranks.
#include <algorithm>
#include <iterator>

#include "kolo/error.h"
#include "kolo/spi/fused_optimizer.h"
#include "torch/equal_weights.h"
#include "torch/gradient_binding.h"
#include "torch/leftovers.h"
#include "torch/optimizer_settings.h"
#include "torch/torch_device.h"

namespace kolo {

void GradientBinding::require_context() const {
  if (!lifetime_.is_over()) {
    if (engine_.is_stopped()) throw UsageError("DistributedOptimizer was used after Context::shutdown()");
    return;
  }
  throw UsageError(
      "DistributedOptimizer: its Context was destroyed, or belongs to the process that forked this one. Keep "
      "the Context alive as long as the optimizer, and train in the process that created both");
}

void GradientBinding::require_some(const std::vector<NamedParameter>& trainable) const {
  if (!trainable.empty()) return;
  std::size_t count = 0;
  for (const auto& group : optimizer_->param_groups()) count += group.params().size();
  throw UsageError("DistributedOptimizer: none of the optimizer's " + std::to_string(count) +
                   " parameters requires a gradient. Add the parameters to train to the optimizer, and call "
                   "requires_grad_() on them, before you wrap it");
}

// What was handed over is reduced as it was then.
void GradientBinding::refuse_late_changes() {
  if (results_are_contributions()) return;  // publish() leaves a changed gradient as it is
  for (const auto& slot : slots_) {
    if (!slot->contributed || !slot->changed_since_contribution()) continue;
    spoil(
        "the gradient of '" + slot->info.name +
        "' was changed after its reduction had started, so the change is lost. To clip, scale or read gradients, call "
        "synchronize() first, then change them, then call step()");
  }
}

// Whether the gradient of a parameter that is not in this round's table is what a round has left there, of this
// optimizer or of another: that is alike on all ranks.
bool GradientBinding::was_reduced(const at::Tensor& parameter) {
  return Leftovers::instance().contains(parameter.grad()) ||
         std::ranges::any_of(GradientHook::slots_of(parameter),
                             [](const auto& slot) { return slot->grad_has_result_value(); });
}

// The optimizer uses every gradient that there is. That of a parameter which was added or thawed after the round was
// closed is this rank's alone.
void GradientBinding::refuse_unreduced_newcomers() {
  if (engine_.size() == 1 || table_is_current()) return;
  for (const auto& [name, tensor] : trainable_parameters(*optimizer_, names_, Unnamed::invent)) {
    if (!tensor.grad().defined() || slot_of(tensor) != nullptr || was_reduced(tensor)) continue;
    throw UsageError("parameter '" + name +
                     "' was added after synchronize(), so its gradient is not reduced. Add parameters before "
                     "synchronize(), or remove the gradient of this step (mutable_grad().reset())");
  }
}

// The optimizer in it uses every gradient that there is, and only those of the table are averaged.
void GradientBinding::refuse_gradients_of_this_rank() {
  if (engine_.size() == 1) return;
  for (const auto& group : optimizer_->param_groups()) {
    for (const auto& parameter : group.params()) {
      if (parameter.requires_grad() || !parameter.grad().defined()) continue;
      if (slot_of(parameter) != nullptr || was_reduced(parameter)) continue;
      if (!parameter.grad().any().item<bool>()) continue;  // zero_grad(false)
      const std::string* const name = names_.find(parameter);
      throw UsageError("parameter '" + (name == nullptr ? std::string("without a name") : *name) +
                       "' requires no gradient but has one, which only this rank computed: step() would use it without "
                       "reducing it. Remove it (mutable_grad().reset()), or call requires_grad_() on the parameter");
    }
  }
}

void GradientBinding::stepped(Outcome outcome) {
  closed_ = false;
  if (lifetime_.is_over()) return;
  recorder_.end_step(stream_here());
  if (outcome == Outcome::updated && options_.compare_weights && engine_.size() > 1) {
    reducer_->set_step_fingerprint(learning_rate_fingerprint(*optimizer_));
  }
  if (reader_.has_value()) {
    const auto updated_in = current_stream(*device_);  // and gradients read there, perhaps not where they were closed
    if (updated_in != *reader_) order_streams(*reader_, updated_in);
  }
  if (results_are_contributions()) return;  // a changed gradient that is contributed again stays what it is
  for (const auto& slot : slots_) {
    slot->remember_result();
  }
}

// Whether weights are compared when `rounds` rounds have ended. The answer is the same on all ranks: they have a new
// plan after the same round, count the same rounds, and a round that fails does so on all ranks.
bool GradientBinding::must_compare_weights(std::uint64_t rounds) const {
  if (failed_) return true;  // others may have been updated early
  if (!options_.compare_weights) return false;
  if (compared_ != reducer_->generation()) return true;
  const auto every = static_cast<std::uint64_t>(options_.compare_weights_every);
  return every != 0 && engine_.size() > 1 && rounds - compared_round_ >= every;
}

// With what the optimizer keeps for them, which the weights may not show yet. After a failure also of parameters that
// have left the table since.
void GradientBinding::compare_weights() {
  if (!must_compare_weights(reducer_->round())) return;
  std::vector<Compared> all;
  const auto add = [&](const Slots& slots) {
    for (const auto& slot : slots) {
      all.push_back({slot->info.name, {slot->parameter}});
      KeptState kept = kept_by(*optimizer_, slot->parameter);
      std::ranges::move(kept.tensors, std::back_inserter(all.back().tensors));
      all.back().steps = kept.steps;
    }
  };
  add(slots_);
  if (failed_) add(departed_);
  const Occasion later = compared_ == 0 ? Occasion::beginning : Occasion::later;
  require_equal_weights(engine_, "weights of " + reducer_->name(), all, failed_ ? Occasion::failed_step : later);
  compared_ = reducer_->generation();
  compared_round_ = reducer_->round();
  failed_ = false;
}

}  // namespace kolo

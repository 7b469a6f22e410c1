#include "torch/gradient_binding.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "kolo/error.h"
#include "kolo/spi/engine.h"
#include "kolo/spi/fused_optimizer.h"
#include "torch/gradient_allocator.h"
#include "torch/leftovers.h"
#include "torch/optimizer_settings.h"
#include "torch/tensor_check.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

// Whether nothing else shares the gradient's memory, and would be reduced with it: a tensor kept by the user, the
// gradient of another parameter.
bool is_alone(const at::Tensor& gradient) { return gradient.use_count() == 1 && gradient.storage().use_count() == 1; }

}  // namespace

GradientBinding::GradientBinding(Engine& engine, std::shared_ptr<torch::optim::Optimizer> optimizer,
                                 const NamedTensors& parameters, const DistributedOptions& options)
    : engine_(engine),
      recorder_(engine.step_recorder()),
      lifetime_(engine.lifetime()),
      optimizer_(std::move(optimizer)),
      fused_(dynamic_cast<FusedOptimizer*>(optimizer_.get())),
      options_(options) {
  ReducerOptions reducer;
  try {
    names_.add(parameters);
    const auto trainable = trainable_parameters(*optimizer_, names_, Unnamed::refuse);
    require_some(trainable);
    device_ = device_of(trainable);
    take_table(trainable);
    reducer = reducer_options(options_, *optimizer_, device_);
  } catch (const UsageError& error) {  // the peers get it too
    reducer.refused = error.what();
  }
  reducer_ = engine_.make_reducer(table(), reducer);
  round_ = reducer_->round();
  give_launcher();
}

// In which the calling thread works. Only asked for while steps are recorded.
Stream GradientBinding::stream_here() const {
  return device_.has_value() && recorder_.is_on() ? to_stream(current_stream(*device_)) : Stream{};
}

// To an optimizer of kolo's own.
void GradientBinding::give_launcher() {
  if (fused_ == nullptr || !device_.has_value()) return;
  std::shared_ptr<StepLauncher> launcher = engine_.make_step_launcher();
  given_ = launcher;
  fused_->set_launcher(std::move(launcher));
}

// Unless the optimizer has had another one since, of a binding that takes this one's place.
void GradientBinding::take_launcher_back() noexcept {
  if (fused_ != nullptr && fused_->shared_launcher() == given_.lock()) fused_->set_launcher(nullptr);
}

// Where a later binding has come and gone.
void GradientBinding::renew_launcher() {
  if (fused_ != nullptr && fused_->shared_launcher() == nullptr) give_launcher();
}

void GradientBinding::attach() {
  for (const auto& slot : slots_) {
    if (slot->hook != nullptr) {
      continue;
    }
    auto call = [binding = weak_from_this(), weak_slot = std::weak_ptr(slot)] {
      const auto owner = binding.lock();
      const auto mine = weak_slot.lock();
      if (owner && mine) {
        owner->on_gradient(*mine);
      }
    };
    slot->hook = GradientHook::install(slot, std::move(call));
    withdraw_offers(*slot);
  }
}

// What one optimizer's ranks write over a gradient where it lies, another one would reduce once more.
void GradientBinding::withdraw_offers(const GradientSlot& newcomer) {
  for (const auto& other : GradientHook::slots_of(newcomer.parameter)) {
    if (other.get() == &newcomer || !std::exchange(other->offered, false)) continue;
    GradientAllocator::instance().forget(newcomer.parameter.unsafeGetTensorImpl());
  }
}

bool GradientBinding::is_of_this_only(const GradientSlot& slot) {
  const auto holders = GradientHook::slots_of(slot.parameter);
  return holders.size() == 1 && holders.front().get() == &slot;
}

void GradientBinding::remember_leftover(const GradientSlot& slot) {
  if (slot.grad_has_result_value()) Leftovers::instance().add(slot.parameter.grad());
}

void GradientBinding::detach() {
  const std::lock_guard lock(mutex_);
  departed_.insert(departed_.end(), slots_.begin(), slots_.end());
  slots_.clear();
  for (const auto& slot : departed_) {
    GradientHook::remove(slot->parameter, slot->hook);
  }
  slots_ = std::move(departed_);
  move_out();
  const Slots last = std::move(slots_);
  by_tensor_.clear();
  for (const auto& slot : last) {
    stop_offering(*slot);
    remember_leftover(*slot);
    slot->rescue_kept();
  }
  if (fused_ != nullptr) fused_->forget_early();
  take_launcher_back();
  reducer_.reset();
}

// --- a round ------------------------------------------------------------------------------------------------------

void GradientBinding::on_gradient(GradientSlot& slot) {
  const std::lock_guard lock(mutex_);
  closed_ = false;
  if (!reducer_ || lifetime_.is_over() ||
      engine_.is_stopped()) {  // step() says so; a later optimizer may be training the same parameters
    return;
  }
  if (recorder_.is_on()) recorder_.gradient_computed(slot.recorded_pass, stream_here());
  if (!slot.parameter.grad().defined()) {  // a hook of the program's has taken it away
    return;
  }
  teach_allocator(slot);
  const bool dropped = slot.passes > 0 && slot.dropped_since_pass();
  slot.remember_pass();
  // One pass too few only delays the hand-over to the end of the round; one too many would be an error.
  if (dropped && !slot.contributed) slot.passes = 0;
  if (no_sync_ > 0) {
    return;
  }
  follow_failure();
  if (!spoiled_.empty()) {
    throw UsageError(spoiled_);
  }
  if (++slot.passes < options_.passes_per_step) {
    return;
  }
  if (slot.contributed) {
    const std::string between =
        dropped
            ? ", and dropped or changed in between. The first gradient is reduced in any case: to leave out a step, "
              "call skip() on all ranks before zero_grad(). Otherwise run"
            : ". Run";
    spoil(
        "the gradient of '" + slot.info.name + "' (" + reducer_->name() +
        ") was computed again after its reduction had started" + between +
        " all backward passes of a step except the last under no_sync(), or set passes_per_step to their number. Run "
        "backward passes of another optimizer's loss through these parameters, as in a GAN, under no_sync() too. Call "
        "step() of the DistributedOptimizer, not of the wrapped optimizer");
  }
  contribute(slot);
  reducer_->progress();
}

void GradientBinding::teach_allocator(const GradientSlot& slot) const {
  if (!options_.shared_gradients) {
    return;
  }
  const auto memory = reducer_->memory();
  const at::Tensor& gradient = slot.parameter.grad();
  const bool shared =
      memory != nullptr && gradient.layout() == c10::kStrided && memory->owns(gradient.const_data_ptr());
  GradientAllocator::instance().learn(slot.parameter.unsafeGetTensorImpl(), shared);
}

void GradientBinding::begin_round() {
  if (began_) {
    return;
  }
  if (options_.overlap_update) {
    fused_->forget_early();
    update_error_ = nullptr;
  }
  move_out();
  if (!table_is_current()) change_table();
  began_ = true;
}

void GradientBinding::end_round(End end) noexcept {
  for (const auto& slot : slots_) {
    if (end == End::given_up) {
      slot->rescue_kept();
    }
    if (reader_.has_value()) {
      slot->keep_for(*reader_);
    }
    slot->passes = 0;
    slot->contributed = false;
    slot->kept.reset();
    slot->in_place = false;
    slot->held = false;
    slot->published = false;
  }
  if (end == End::given_up) {
    failed_ = options_.overlap_update;
    if (fused_ != nullptr) fused_->forget_early();
  }
  began_ = false;
  table_moved_ = some_are_copies_ = some_are_held_ = false;
  contributed_.clear();
  spoiled_.clear();
  round_ = reducer_->round();
}

// The round that this side believes to be in may have ended as failed meanwhile.
void GradientBinding::follow_failure() noexcept {
  if (reducer_->round() != round_) {
    end_round(End::given_up);
  }
}

void GradientBinding::contribute(GradientSlot& slot) {
  const at::Tensor& gradient = slot.parameter.grad();
  if (const auto trouble = trouble_with(gradient, Access::read); !trouble.empty()) {
    spoil("the gradient of '" + slot.info.name + "' " + trouble);
  }
  if (gradient._is_zerotensor()) slot.parameter.mutable_grad() = resolved(gradient);
  if (gradient.sizes() != slot.parameter.sizes()) {  // left behind by a graph that is older than the parameter's shape
    spoil("the gradient of '" + slot.info.name + "' has shape " + c10::str(gradient.sizes()) + ", the parameter has " +
          c10::str(slot.parameter.sizes()) + "; the parameter got another shape after this gradient was computed");
  }
  begin_round();
  if (slot.index == GradientSlot::kDeparted || !is_described_by(slot.parameter, slot.info)) {
    return;  // not in this round's table
  }
  slot.in_place =
      options_.shared_gradients && lies_as(gradient, slot.info) && is_alone(gradient) && is_of_this_only(slot);
  slot.kept = laid_out(gradient, slot.info, must_be_copied(gradient) || is_of_another(slot, gradient));
  if (slot.in_place) {
    reducer_->contribute_in_place(slot.index, slot.kept.mutable_data_ptr());
  } else {
    reducer_->contribute(slot.index, slot.kept.const_data_ptr(), slot.ready_stream());
  }
  slot.contributed = true;
  slot.copied = !slot.kept.is_same(gradient);
  some_are_copies_ |= slot.copied;
  if (slot.copied || !results_are_contributions()) slot.remember_contribution();
}

// With one rank and no scale, nothing is reduced.
bool GradientBinding::results_are_contributions() const {
  return engine_.size() == 1 && options_.prescale == 1 && options_.postscale == 1 && !options_.shared_gradients;
}

// With one rank the result is the contribution itself. If two gradients overlap, one is copied, so
// that clipping one does not change the other.
bool GradientBinding::must_be_copied(const at::Tensor& gradient) {
  if (!results_are_contributions() || gradient.numel() == 0) return false;
  const auto [begin, end] = extent_of(gradient);
  const auto next = contributed_.upper_bound(begin);
  if (next != contributed_.end() && next->first < end) return true;
  if (next != contributed_.begin() && std::prev(next)->second > begin) return true;
  contributed_.emplace_hint(next, begin, end);
  return false;
}

// In the memory of another reducer's result, which that will write to. (Such memory cannot be resized.)
bool GradientBinding::is_of_another(const GradientSlot& slot, const at::Tensor& gradient) {
  return !gradient.storage().resizable() && !slot.is_view(gradient);
}

// What another optimizer's round has left there: reduced already, and nothing that this rank has to say.
bool GradientBinding::is_left_by_another(const GradientSlot& slot) {
  return std::ranges::any_of(GradientHook::slots_of(slot.parameter),
                             [&](const auto& other) { return other.get() != &slot && other->grad_is_leftover(); });
}

void GradientBinding::sweep(const Slots& slots) {
  for (const auto& slot : slots) {
    if (slot->contributed || !slot->parameter.grad().defined()) continue;
    if (slot->grad_is_leftover() || is_left_by_another(*slot)) continue;
    contribute(*slot);
  }
}

void GradientBinding::finish(const GradientReducer::OnReduced& reduced) {
  if (device_.has_value()) {
    reader_ = current_stream(*device_);
  }
  try {
    reducer_->finish(reader_.has_value() ? to_stream(*reader_) : Stream{}, reduced);
  } catch (...) {
    if (reducer_->round() != round_) end_round(End::given_up);  // else it is still open, and nothing was sent
    throw;
  }
  offer_memory();
}

// Not before weights have been compared: where they differ, nothing is updated.
bool GradientBinding::may_update_early() const { return options_.overlap_update && !must_compare_weights(round_ + 1); }

// What an update throws is thrown when the round has ended, as it would be by step().
void GradientBinding::update_early(std::size_t index) noexcept {
  if (update_error_) return;
  try {
    GradientSlot& slot = *slots_[index];
    if (slot.held) return;  // a round that is sent again reads it again
    slot.published = publish(slot);
    if (!slot.published) return;
    const auto part = record(StepPart::update);
    fused_->update_early(slot.parameter);
  } catch (...) {
    update_error_ = std::current_exception();
  }
}

// A new plan has new memory.
void GradientBinding::offer_memory() {
  if (!options_.shared_gradients || offered_ == reducer_->generation()) {
    return;
  }
  offered_ = reducer_->generation();
  const auto memory = reducer_->memory();
  for (const auto& slot : slots_) {
    if (memory != nullptr && slot->info.bytes() >= options_.shared_from && is_of_this_only(*slot)) {
      GradientAllocator::instance().serve(slot->parameter.unsafeGetTensorImpl(), slot->info.bytes(), memory);
      slot->offered = true;
    } else {
      stop_offering(*slot);
    }
  }
}

void GradientBinding::stop_offering(GradientSlot& slot) {
  if (std::exchange(slot.offered, false)) {
    GradientAllocator::instance().forget(slot.parameter.unsafeGetTensorImpl());
  }
}

void GradientBinding::publish(const Slots& slots) {
  for (const auto& slot : slots) {
    if (!slot->published) publish(*slot);
  }
  if (!some_are_held_) return;
  for (const auto& slot : slots) {  // views of one buffer count changes together
    if (slot->held) slot->remember_version();
  }
}

bool GradientBinding::publish(GradientSlot& slot) {
  if (!reducer_->contributed(slot.index)) return false;
  if (table_moved_ && !is_described_by(slot.parameter, slot.info)) return false;
  if (results_are_contributions() && slot.was_replaced()) return true;
  slot.publish(reducer_->gradient(slot.index));
  if (slot.held && reader_.has_value()) keep_for(slot.parameter.grad(), *reader_);
  return true;
}

// In the calling thread's stream, behind what the program has written to them there (zeros, a further gradient) and
// behind the results; before the stream that the reducer waits for when it writes new ones.
void GradientBinding::move_out() const {
  if (std::ranges::none_of(slots_, [](const auto& slot) { return slot->is_held(); })) return;
  const auto here = device_.has_value() ? std::optional(current_stream(*device_)) : std::nullopt;
  const bool elsewhere = reader_.has_value() && here != reader_;
  if (elsewhere) order_streams(*here, *reader_);
  for (const auto& slot : slots_) slot->move_out();
  if (elsewhere) order_streams(*reader_, *here);
}

void GradientBinding::close_round(Before before) {
  const std::lock_guard lock(mutex_);
  if (!reducer_) {
    return;
  }
  require_context();
  const auto part = record(StepPart::synchronize);
  try {
    reduce(before);
  } catch (...) {
    recorder_.abandon_step();
    throw;
  }
}

void GradientBinding::reduce(Before before) {
  follow_failure();
  if (!spoiled_.empty()) {
    throw UsageError(spoiled_);
  }
  renew_launcher();
  begin_round();
  refuse_gradients_of_this_rank();
  sweep(slots_);
  find_held_gradients();
  refuse_late_changes();
  const auto joined = first_that_joined();
  if (joined) {
    reducer_->need_another_round("'" + *joined + "', which was added after the first gradient");
  }
  const bool early = before == Before::step && !joined && may_update_early();
  finish(early ? [this](std::size_t index) { update_early(index); } : GradientReducer::OnReduced());
  publish(slots_);
  end_round(End::reduced);
  if (joined) {
    reduce_newcomers();
  }
  compare_weights();
  release_departed();
  closed_ = true;
  if (update_error_) std::rethrow_exception(std::exchange(update_error_, nullptr));
}

bool GradientBinding::closed() const {
  if (!closed_ || reducer_ == nullptr || reducer_->round() != round_) {
    return false;
  }
  bool gone = false;
  for (const auto& slot : slots_) {
    if (!reducer_->contributed(slot->index)) {
      continue;
    }
    if (slot->parameter.grad().defined()) {
      return true;
    }
    gone = true;
  }
  return !gone;
}

void GradientBinding::spoil(const std::string& text) {
  spoiled_ = text;
  throw UsageError(text);
}

}  // namespace kolo

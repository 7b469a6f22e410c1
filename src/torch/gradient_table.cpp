// The part of GradientBinding that keeps its slots in step with the optimizer's parameters. Its work is linear in their
// number: slots are found by tensor, and an unchanged table is only walked through.
#include <algorithm>
#include <iterator>
#include <utility>

#include "kolo/error.h"
#include "torch/gradient_binding.h"

namespace kolo {

std::vector<GradientInfo> GradientBinding::table() const {
  std::vector<GradientInfo> table;
  table.reserve(slots_.size());
  for (const auto& slot : slots_) table.push_back(slot->info);
  return table;
}

// The map is made when it is first asked for: most tables never change.
GradientSlot* GradientBinding::slot_of(const at::Tensor& parameter) {
  if (by_tensor_.empty()) {
    by_tensor_.reserve(slots_.size());
    for (const auto& slot : slots_) by_tensor_.emplace(slot->parameter.unsafeGetTensorImpl(), slot.get());
  }
  const auto found = by_tensor_.find(parameter.unsafeGetTensorImpl());
  return found == by_tensor_.end() ? nullptr : found->second;
}

// Whether trainable_parameters() would be this table, in its order. A parameter that is there twice counts once.
bool GradientBinding::table_is_current() {
  std::size_t next = 0;
  for (const auto& group : optimizer_->param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      if (next < slots_.size() && parameter.is_same(slots_[next]->parameter)) {
        if (!is_described_by(parameter, slots_[next]->info)) return false;
        ++next;
        continue;
      }
      const GradientSlot* const seen = slot_of(parameter);
      if (seen == nullptr || seen->index >= next) return false;
    }
  }
  return next == slots_.size();
}

void GradientBinding::check_devices(const std::vector<NamedParameter>& parameters) const {
  const auto device = device_of(parameters);
  if (device.has_value() && device != device_) {
    throw UsageError("parameters that require a gradient are on " + device->str() +
                     "; when the optimizer was wrapped " +
                     (device_.has_value() ? "they were on " + device_->str() : std::string("none was on a device")) +
                     ". Move the model to the device first, then wrap the optimizer, with at least one parameter that "
                     "requires a gradient");
  }
}

// A tensor keeps its slot and hook while it is in the table. Returns the slots that are new in the
// table or whose gradient has another description.
GradientBinding::Slots GradientBinding::take_table(const std::vector<NamedParameter>& parameters) {
  std::vector<GradientInfo> table;
  table.reserve(parameters.size());
  std::transform(parameters.begin(), parameters.end(), std::back_inserter(table), describe_gradient);
  Slots known = std::move(slots_);
  known.insert(known.end(), departed_.begin(), departed_.end());
  std::unordered_map<const at::TensorImpl*, std::shared_ptr<GradientSlot>> by_tensor;
  by_tensor.reserve(known.size());
  for (const auto& slot : known) by_tensor.emplace(slot->parameter.unsafeGetTensorImpl(), slot);
  Slots newcomers;
  slots_.clear();
  slots_.reserve(parameters.size());
  by_tensor_.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto found = by_tensor.find(parameters[i].tensor.unsafeGetTensorImpl());
    std::shared_ptr<GradientSlot> slot;
    if (found == by_tensor.end()) {
      slot = std::make_shared<GradientSlot>(parameters[i].tensor, std::move(table[i]));
      newcomers.push_back(slot);
    } else {
      slot = found->second;
      if (slot->index == GradientSlot::kDeparted || !is_described_by(parameters[i].tensor, slot->info)) {
        newcomers.push_back(slot);
      }
      slot->info = std::move(table[i]);
    }
    slot->index = i;
    slots_.push_back(std::move(slot));
  }
  departed_.clear();
  for (auto& slot : known) {
    if (slot->index < slots_.size() && slots_[slot->index] == slot) continue;
    slot->index = GradientSlot::kDeparted;
    stop_offering(*slot);
    remember_leftover(*slot);
    departed_.push_back(std::move(slot));
  }
  return newcomers;
}

GradientBinding::Slots GradientBinding::change_table() {
  const auto parameters = trainable_parameters(*optimizer_, names_, Unnamed::invent);
  check_devices(parameters);
  Slots newcomers = take_table(parameters);
  attach();
  reducer_->change_table(table());
  table_moved_ = false;
  return newcomers;
}

// REQUIRES: no hook is running.
void GradientBinding::release_departed() {
  for (const auto& slot : departed_) GradientHook::remove(slot->parameter, slot->hook);
  departed_.clear();
}

// Between the first contribution of a round and its end.
std::optional<std::string> GradientBinding::first_that_joined() {
  table_moved_ = !table_is_current();
  if (!table_moved_) return std::nullopt;
  for (const auto& [name, tensor] : trainable_parameters(*optimizer_, names_, Unnamed::invent)) {
    const GradientSlot* const slot = slot_of(tensor);
    if (slot == nullptr || !is_described_by(tensor, slot->info)) return name;
  }
  return std::nullopt;
}

// A second round, on all ranks, reduces the newcomers alone. All other gradients stay as they are.
void GradientBinding::reduce_newcomers() {
  move_out();
  const Slots newcomers = change_table();
  began_ = true;
  sweep(newcomers);
  find_held_gradients();
  finish();
  publish(newcomers);
  end_round(End::reduced);
}

}  // namespace kolo

#include "torch/param_group_sync.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <type_traits>

#include "kolo/error.h"
#include "torch/optimizer_settings.h"

namespace kolo {
namespace {

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;

// Calls use(a, b) with the common type of both, if it is one of LibTorch's.
template <class Use>
void with_known_type(OptimizerOptions& a, OptimizerOptions& b, const Use& use) {
  const auto try_type = [&]<class Options>(std::type_identity<Options>) {
    auto* const first = dynamic_cast<Options*>(&a);
    auto* const second = dynamic_cast<Options*>(&b);
    if (first == nullptr || second == nullptr) return false;
    use(*first, *second);
    return true;
  };
  static_cast<void>(try_type(std::type_identity<torch::optim::SGDOptions>()) ||
                    try_type(std::type_identity<torch::optim::AdamOptions>()) ||
                    try_type(std::type_identity<torch::optim::AdamWOptions>()) ||
                    try_type(std::type_identity<torch::optim::AdagradOptions>()) ||
                    try_type(std::type_identity<torch::optim::RMSpropOptions>()) ||
                    try_type(std::type_identity<torch::optim::LBFGSOptions>()));
}

// True for options of an unknown type, whose fields cannot be read.
bool are_equal(OptimizerOptions& a, OptimizerOptions& b) {
  bool equal = true;
  with_known_type(a, b, [&](const auto& first, const auto& second) { equal = first == second; });
  return equal;
}

void assign(OptimizerOptions& to, OptimizerOptions& from) {
  with_known_type(to, from, [](auto& target, const auto& source) { target = source; });
}

bool have_same_params(const OptimizerParamGroup& a, const OptimizerParamGroup& b) {
  return std::ranges::equal(a.params(), b.params(), [](const auto& x, const auto& y) { return x.is_same(y); });
}

[[noreturn]] void refuse(std::size_t group, const std::string& what) {
  throw UsageError("parameter group " + std::to_string(group) + ": " + what +
                   " in the DistributedOptimizer, and to another value in the wrapped optimizer, since the last "
                   "step(). Change only one of the two");
}

bool are_same_rates(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Copies to both sides, and to `last`, what one of them has changed.
void reconcile_rates(std::size_t group, OptimizerOptions& outer, OptimizerOptions& inner, OptimizerOptions& last) {
  const auto last_rate = learning_rate_of(last);
  if (!last_rate) return;
  const double rate = inner.get_lr();
  const double outer_rate = outer.get_lr();
  if (are_same_rates(outer_rate, *last_rate)) {
    outer.set_lr(rate);
  } else if (are_same_rates(rate, *last_rate)) {
    inner.set_lr(outer_rate);
  } else if (!are_same_rates(rate, outer_rate)) {
    std::ostringstream what;
    what << "the learning rate was changed to " << outer_rate;
    refuse(group, what.str());
  }
  last.set_lr(inner.get_lr());
}

// REQUIRES: equal learning rates. Options with a NaN as rate differ from themselves, so they are not compared.
void reconcile_options(std::size_t group, OptimizerOptions& outer, OptimizerOptions& inner, OptimizerOptions& last) {
  if (const auto rate = learning_rate_of(inner); rate && std::isnan(*rate)) return;
  if (are_equal(outer, last)) {
    if (!are_equal(inner, last)) assign(outer, inner);
  } else if (are_equal(inner, last)) {
    assign(inner, outer);
  } else if (!are_equal(outer, inner)) {
    refuse(group, "options were changed");
  }
  assign(last, inner);
}

void reconcile_params(std::size_t group, OptimizerParamGroup& outer, OptimizerParamGroup& inner,
                      OptimizerParamGroup& last) {
  const bool outer_changed = !have_same_params(outer, last);
  const bool inner_changed = !have_same_params(inner, last);
  if (!outer_changed && !inner_changed) return;
  if (outer_changed && inner_changed && !have_same_params(outer, inner)) refuse(group, "parameters were changed");
  last.params() = inner_changed ? inner.params() : outer.params();
  outer.params() = last.params();
  inner.params() = last.params();
}

// Makes `to` as long as `from`. std::vector::resize and assignment need what a group has not.
void match_count(ParamGroupSync::Groups& to, const ParamGroupSync::Groups& from) {
  while (to.size() > from.size()) to.pop_back();
  for (std::size_t i = to.size(); i < from.size(); ++i) to.emplace_back(from[i]);
}

}  // namespace

ParamGroupSync::ParamGroupSync(Groups& outer, torch::optim::Optimizer& inner)
    : outer_(outer), inner_(inner), last_(inner.param_groups()) {
  outer_ = Groups(last_);
}

void ParamGroupSync::reconcile() {
  Groups& inner = inner_.param_groups();
  if (outer_.size() != last_.size() && inner.size() != last_.size() &&
      !std::ranges::equal(outer_, inner, have_same_params)) {
    refuse(std::min(outer_.size(), inner.size()), "groups were added or removed");
  }
  const bool from_outer = outer_.size() != last_.size();
  match_count(last_, from_outer ? outer_ : inner);
  match_count(outer_, last_);
  match_count(inner, last_);
  for (std::size_t i = 0; i < last_.size(); ++i) {
    reconcile_params(i, outer_[i], inner[i], last_[i]);
    if (!outer_[i].has_options() || !inner[i].has_options() || !last_[i].has_options()) continue;
    reconcile_rates(i, outer_[i].options(), inner[i].options(), last_[i].options());
    reconcile_options(i, outer_[i].options(), inner[i].options(), last_[i].options());
  }
}

}  // namespace kolo

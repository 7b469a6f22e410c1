#pragma once
// The fields of the optimizer state that LibTorch keeps for each parameter.
//
//   visit_fields(adam_state, [](const char* name, auto& field) { ... });  // field: at::Tensor& or std::int64_t&
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <concepts>

namespace kolo {

template <class Visit>
void visit_fields(torch::optim::SGDParamState& state, Visit visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <class State, class Visit>
requires std::same_as<State, torch::optim::AdamParamState> || std::same_as<State, torch::optim::AdamWParamState>
void visit_fields(State& state, Visit visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <class Visit>
void visit_fields(torch::optim::RMSpropParamState& state, Visit visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <class Visit>
void visit_fields(torch::optim::AdagradParamState& state, Visit visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

// Calls act(State{}) with the type of the optimizer's state. False for an optimizer of another kind.
template <class Act>
bool with_state_type(const torch::optim::Optimizer& optimizer, Act act) {
  const auto is = [&](auto* kind) { return dynamic_cast<decltype(kind)>(&optimizer) != nullptr; };
  if (is(static_cast<const torch::optim::SGD*>(nullptr))) return act(torch::optim::SGDParamState{}), true;
  if (is(static_cast<const torch::optim::Adam*>(nullptr))) return act(torch::optim::AdamParamState{}), true;
  if (is(static_cast<const torch::optim::AdamW*>(nullptr))) return act(torch::optim::AdamWParamState{}), true;
  if (is(static_cast<const torch::optim::RMSprop*>(nullptr))) return act(torch::optim::RMSpropParamState{}), true;
  if (is(static_cast<const torch::optim::Adagrad*>(nullptr))) return act(torch::optim::AdagradParamState{}), true;
  return false;
}

}  // namespace kolo

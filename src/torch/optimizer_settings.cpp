#include "torch/optimizer_settings.h"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/output-archive.h>

#include <array>
#include <charconv>
#include <sstream>

#include "kolo/torch/fused_optimizer.h"
#include "torch/fingerprint.h"

namespace kolo {
namespace {

std::string learning_rate_of(const torch::optim::OptimizerOptions& options) {
  try {
    std::array<char, 32> shortest{};
    const auto end = std::to_chars(shortest.begin(), shortest.end(), options.get_lr()).ptr;
    return " lr=" + std::string(shortest.begin(), end);
  } catch (const c10::Error&) {  // it has none
    return {};
  }
}

// Empty where they cannot be written.
std::string saved(const torch::optim::OptimizerOptions& options) {
  try {
    torch::serialize::OutputArchive archive;
    options.serialize(archive);
    std::ostringstream bytes;
    archive.save_to(bytes);
    return bytes.str();
  } catch (const c10::Error&) {
    return {};
  }
}

}  // namespace

std::string settings_of(const torch::optim::Optimizer& optimizer) {
  std::ostringstream out;
  out << c10::demangle(typeid(optimizer).name());
  for (const auto& group : optimizer.param_groups()) {
    out << ',';
    if (!group.has_options()) continue;
    out << learning_rate_of(group.options());
    const std::string options = saved(group.options());
    if (!options.empty()) out << " options=" << std::hex << fingerprint(options) << std::dec;
  }
  return out.str();
}

KeptState kept_by(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  namespace optim = torch::optim;
  KeptState kept;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) kept.tensors.push_back(tensor);
  };
  const auto add_moments = [&](const auto& state) {
    add(state.exp_avg());
    add(state.exp_avg_sq());
    add(state.max_exp_avg_sq());
    kept.steps = state.step();
  };
  if (const auto* fused = dynamic_cast<const FusedOptimizer*>(&optimizer)) {
    for (const at::Tensor& tensor : fused->kept_for(parameter)) add(tensor);
    return kept;
  }
  const auto& states = optimizer.state();
  const auto found = states.find(parameter.unsafeGetTensorImpl());
  if (found == states.end()) return kept;
  const optim::OptimizerParamState* const any = found->second.get();
  if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(any)) {
    add(sgd->momentum_buffer());
  } else if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(any)) {
    add_moments(*adam);
  } else if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(any)) {
    add_moments(*adamw);
  } else if (const auto* adagrad = dynamic_cast<const optim::AdagradParamState*>(any)) {
    add(adagrad->sum());
    kept.steps = adagrad->step();
  } else if (const auto* rmsprop = dynamic_cast<const optim::RMSpropParamState*>(any)) {
    add(rmsprop->square_avg());
    add(rmsprop->momentum_buffer());
    add(rmsprop->grad_avg());
    kept.steps = rmsprop->step();
  }
  return kept;
}

std::string learning_rates_of(const torch::optim::Optimizer& optimizer) {
  std::string rates;
  for (const auto& group : optimizer.param_groups()) {
    if (group.has_options()) rates += learning_rate_of(group.options());
  }
  return rates;
}

}  // namespace kolo

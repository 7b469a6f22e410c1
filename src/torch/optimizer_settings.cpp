#include "torch/optimizer_settings.h"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include "kolo/error.h"
#include "kolo/spi/fused_optimizer.h"
#include "torch/fingerprint.h"
#include "torch/torch_device.h"

namespace kolo {
namespace {

std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.begin(), std::to_chars(text.begin(), text.end(), value).ptr};
}

// "lr=0.1"; empty where the options have none.
std::string learning_rate_text(const torch::optim::OptimizerOptions& options) {
  const auto rate = learning_rate_of(options);
  return rate ? "lr=" + shortest(*rate) : std::string();
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

// On one line and without ", ", which separates settings.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (auto at = text.find(", "); at != std::string::npos; at = text.find(", ", at)) text.erase(at + 1, 1);
  return text;
}

std::string text_of(const at::Tensor& tensor) {
  constexpr std::int64_t kShown = 16;
  if (!tensor.defined()) return "none";
  if (tensor.numel() > kShown || tensor.is_complex()) {
    std::ostringstream text;
    text << "tensor of " << tensor.numel() << " elements (hash " << std::hex << fingerprint(tensor) << ")";
    return text.str();
  }
  const at::Tensor values = tensor.to(at::kCPU, at::kDouble).flatten();
  std::string text;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    text += (i == 0 ? "" : ",") + shortest(values[i].item<double>());
  }
  return "tensor(" + text + ")";
}

std::optional<std::string> text_of(const c10::IValue& value);

std::optional<std::string> text_of(const std::vector<c10::IValue>& elements) {
  std::string text;
  for (const auto& element : elements) {
    const auto each = text_of(element);
    if (!each) return std::nullopt;
    text += (text.empty() ? "(" : ",") + *each;
  }
  return text.empty() ? "()" : text + ")";
}

// Nothing for values of another kind.
std::optional<std::string> text_of(const c10::IValue& value) {
  if (value.isNone()) return "none";
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return shortest(value.toDouble());
  if (value.isString()) return on_one_line(value.toStringRef());
  if (value.isTensor()) return text_of(value.toTensor());
  if (value.isTuple()) return text_of(value.toTupleRef().elements().vec());
  if (value.isList()) return text_of(value.toListRef().vec());
  if (!value.isGenericDict()) return std::nullopt;
  std::vector<c10::IValue> entries;
  for (const auto& entry : value.toGenericDict()) entries.insert(entries.end(), {entry.key(), entry.value()});
  return text_of(entries);
}

// "lr=0.1", "momentum=0.9", ... from what the options write of themselves. Of a value that has no text: a hash of all.
std::vector<std::string> options_in(const std::string& saved_options) {
  std::istringstream bytes(saved_options);
  torch::serialize::InputArchive archive;
  archive.load_from(bytes);
  std::vector<std::string> options;
  bool all = true;
  for (const auto& name : archive.keys()) {
    c10::IValue value;
    archive.read(name, value);
    const auto text = text_of(value);
    all = all && text.has_value();
    if (text) options.push_back(name + "=" + *text);
  }
  if (!all) {
    std::ostringstream hash;
    hash << "hash of all options=" << std::hex << fingerprint(saved_options);
    options.push_back(hash.str());
  }
  return options;
}

std::vector<std::string> options_of(const torch::optim::OptimizerOptions& options, const std::string& saved_options) {
  if (!saved_options.empty()) {
    try {
      return options_in(saved_options);
    } catch (const c10::Error&) {  // written by a type of the program's in another way
    }
  }
  std::string rate = learning_rate_text(options);
  return rate.empty() ? std::vector<std::string>{} : std::vector{std::move(rate)};
}

void check(const DistributedOptions& options, const torch::optim::Optimizer& optimizer,
           const std::optional<c10::Device>& device) {
  if (options.op != ReduceOp::sum && options.op != ReduceOp::average) {
    throw UsageError("DistributedOptions: op is " + std::string(name_of(options.op)) + "; it must be sum or average");
  }
  if (options.passes_per_step < 1) {
    throw UsageError("DistributedOptions: passes_per_step is " + std::to_string(options.passes_per_step) +
                     "; it must be 1 or more");
  }
  if (options.compare_weights_every < 0) {
    throw UsageError("DistributedOptions: compare_weights_every is " + std::to_string(options.compare_weights_every) +
                     "; it must be 0 or more");
  }
  if (device.has_value() && (options.shared_gradients || options.overlap_update)) {
    throw UsageError(std::string("DistributedOptions: ") +
                     (options.shared_gradients ? "shared_gradients" : "overlap_update") +
                     " needs parameters in CPU memory, but parameters are on " + device->str());
  }
  if (options.overlap_update && !options.compare_weights) {
    throw UsageError(
        "DistributedOptions: overlap_update needs compare_weights, because after a failed step ranks may have updated "
        "different weights");
  }
  if (options.overlap_update && dynamic_cast<const FusedOptimizer*>(&optimizer) == nullptr) {
    throw UsageError(
        "DistributedOptions: overlap_update works with kolo's optimizers only; use FusedSGD or FusedAdamW");
  }
}

}  // namespace

std::string settings_of(const torch::optim::Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  std::string text = c10::demangle(typeid(optimizer).name());
  if (groups.size() != 1) text += ", " + std::to_string(groups.size()) + " parameter groups";
  std::string before;  // saved options of the last group, which are often those of the next
  std::vector<std::string> options;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].has_options()) continue;
    std::string bytes = saved(groups[i].options());
    if (bytes.empty() || bytes != before) options = options_of(groups[i].options(), bytes);
    before = std::move(bytes);
    const std::string prefix = groups.size() == 1 ? ", " : ", group " + std::to_string(i) + " ";
    for (const auto& option : options) text += prefix + option;
  }
  return text;
}

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

std::optional<double> learning_rate_of(const torch::optim::OptimizerOptions& options) {
  try {
    return options.get_lr();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

std::uint64_t learning_rate_fingerprint(const torch::optim::Optimizer& optimizer) {
  std::string rates;
  for (const auto& group : optimizer.param_groups()) {
    if (group.has_options()) rates += learning_rate_text(group.options()) + ' ';
  }
  return fingerprint(rates);
}

}  // namespace kolo

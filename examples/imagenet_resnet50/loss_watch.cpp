#include "loss_watch.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <vector>

#include "failure.h"
#include "ranks.h"
#include "snapshot.h"

namespace imagenet {
namespace {

constexpr int kMostSteps = 20;
constexpr std::size_t kNamedRanks = 16;

// "rank 3", "ranks 0, 1": those whose mark for the step is set.
std::string ranks_of(const std::vector<std::string>& marks, std::size_t step) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    if (marks[rank][step] == '1') ranks.push_back(rank);
  }
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size() && i < kNamedRanks; ++i) {
    text += (i > 0 ? ", " : " ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kNamedRanks) text += " and " + std::to_string(ranks.size() - kNamedRanks) + " more";
  return text;
}

std::string local_non_finite_state(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!tensor.is_floating_point()) continue;
    const auto bad = at::isfinite(tensor).logical_not().sum().item<std::int64_t>();
    if (bad == 0) continue;
    return name + " has " + std::to_string(bad) + " values of " + std::to_string(tensor.numel()) +
           " that are not finite";
  }
  return {};
}

// As sum_over_ranks(), but without a gather that tells the purpose, because each step calls it.
void allreduce_sum(kolo::Context& context, std::vector<double>& values) {
  if (context.size() == 1) return;
  kolo::AllreduceOptions options;
  options.data = reinterpret_cast<std::byte*>(values.data());
  options.count = values.size();
  options.dtype = kolo::DType::f64;
  context.communicator().allreduce(options, context.config().timeout);
}

}  // namespace

std::string LossWatch::check(std::int64_t first, std::span<const double> losses) {
  std::vector<double> ranks_affected;  // a number for each step
  std::string mine;
  for (const double loss : losses) {
    ranks_affected.push_back(std::isfinite(loss) ? 0 : 1);
    mine += std::isfinite(loss) ? '0' : '1';
  }
  allreduce_sum(context_, ranks_affected);
  std::vector<std::string> marks;  // by rank; gathered only if a loss is not finite
  for (std::size_t i = 0; i < ranks_affected.size(); ++i) {
    if (ranks_affected[i] == 0) {
      consecutive_ = 0;
      ranks_.clear();
      continue;
    }
    if (marks.empty()) marks = gather(context_, mine);
    const std::string step = std::to_string(first + static_cast<std::int64_t>(i));
    const std::string ranks = ranks_of(marks, i);
    if (ranks != ranks_) reporter_.note("warning: the loss of step " + step + " is not finite on " + ranks);
    ranks_ = ranks;
    if (++consecutive_ < kMostSteps || on_nan_ == OnNan::warn) continue;
    return "the loss was not finite in " + std::to_string(kMostSteps) + " consecutive steps up to step " + step +
           ", on " + ranks +
           ". Lower --lr or check the data, then resume from the last checkpoint; --on-nan warn ignores it";
  }
  return {};
}

std::string non_finite_state(kolo::Context& context, const torch::nn::Module& model) {
  return summary_of(gather(context, local_non_finite_state(model)));
}

}  // namespace imagenet

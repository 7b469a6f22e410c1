#include "evaluate.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ranks.h"

namespace imagenet {
namespace {

bool is_statistic(const std::string& name) { return name.ends_with("running_mean") || name.ends_with("running_var"); }

}  // namespace

void average_statistics(kolo::Context& context, torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> statistics;
  for (const auto& buffer : model.named_buffers()) {
    if (is_statistic(buffer.key())) statistics.push_back(buffer.value());
  }
  const at::Tensor flat = at::cat(statistics);
  average_over_ranks(context, {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
  std::int64_t offset = 0;
  for (auto& statistic : statistics) {
    statistic.copy_(flat.narrow(0, offset, statistic.numel()));
    offset += statistic.numel();
  }
}

Evaluation evaluate(kolo::Context& context, ResNet& model, BatchSource& source) {
  const at::NoGradGuard no_grad;
  model.eval();
  std::array<double, 4> sums{};  // loss, first right, one of five right, images
  source.begin(0, 0);
  for (Batch batch; source.next(batch);) {
    const std::int64_t count = batch.labels.size(0);
    if (count == 0) continue;
    const at::Tensor logits = model.forward(batch.images);
    sums[0] += at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum).item<double>();
    const auto best = std::get<1>(logits.topk(std::min<std::int64_t>(5, logits.size(1)), 1));
    const at::Tensor hits = best.eq(batch.labels.unsqueeze(1));
    sums[1] += hits.select(1, 0).sum().item<double>();
    sums[2] += hits.sum().item<double>();
    sums[3] += static_cast<double>(count);
  }
  model.train();
  sum_over_ranks(context, sums);
  const double images = std::max(sums[3], 1.0);
  return {sums[0] / images, sums[1] / images, sums[2] / images, static_cast<std::int64_t>(sums[3])};
}

}  // namespace imagenet

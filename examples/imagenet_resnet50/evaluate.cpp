#include "evaluate.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "ranks.h"
#include "totals.h"

namespace imagenet {
namespace {

bool is_statistic(const std::string& name) { return name.ends_with("running_mean") || name.ends_with("running_var"); }

}  // namespace

at::Tensor logits_of(const Compute& compute, ResNet& model, const at::Tensor& images) {
  const Autocast autocast(compute);
  return model.forward(images).to(at::kFloat);
}

void average_statistics(kolo::Context& context, torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> statistics;
  for (const auto& buffer : model.named_buffers()) {
    if (is_statistic(buffer.key())) statistics.push_back(buffer.value());
  }
  const at::Tensor flat = at::cat(statistics).cpu();
  average_over_ranks(context, {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
  std::int64_t offset = 0;
  for (auto& statistic : statistics) {
    statistic.copy_(flat.narrow(0, offset, statistic.numel()));
    offset += statistic.numel();
  }
}

Evaluation evaluate(kolo::Context& context, const Compute& compute, ResNet& model, BatchSource& source) {
  const at::NoGradGuard no_grad;
  model.eval();
  Totals totals(compute.device, 4);  // loss, first right, one of five right, images
  source.begin(0, 0);
  for (Batch batch; source.next(batch);) {
    const std::int64_t count = batch.labels.size(0);
    if (count == 0) continue;
    const at::Tensor logits = logits_of(compute, model, batch.images);
    totals.add(0, at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum));
    const auto best = std::get<1>(logits.topk(std::min<std::int64_t>(5, logits.size(1)), 1));
    const at::Tensor hits = best.eq(batch.labels.unsqueeze(1));
    totals.add(1, hits.select(1, 0).sum());
    totals.add(2, hits.sum());
    totals.add(3, static_cast<double>(count));
  }
  model.train();
  std::vector<double> sums = totals.read();
  sum_over_ranks(context, sums);
  const double images = std::max(sums[3], 1.0);
  return {sums[0] / images, sums[1] / images, sums[2] / images, static_cast<std::int64_t>(sums[3])};
}

}  // namespace imagenet

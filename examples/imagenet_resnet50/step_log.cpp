#include "step_log.h"

#include <ATen/Functions.h>

#include "ranks.h"

namespace imagenet {

void StepLog::add(const StepRecord& record, const at::Tensor& loss) {
  pending_.push_back(record);
  if (loss.defined()) losses_.push_back(loss);
}

void StepLog::fetch_from_device() {
  const at::Tensor losses = at::stack(losses_).to(at::kDouble).cpu();
  losses_.clear();
  double time = 0;
  for (const StepRecord& r : pending_) time += r.step_ms;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    pending_[i].loss = losses.const_data_ptr<double>()[i];
    pending_[i].step_ms = time / static_cast<double>(pending_.size());
  }
}

std::vector<double> StepLog::flush() {
  if (!losses_.empty()) fetch_from_device();
  std::vector<double> losses;
  for (const StepRecord& r : pending_) losses.push_back(r.loss);
  constexpr std::size_t kColumns = 7;
  std::vector<double> table;
  table.reserve(pending_.size() * kColumns);
  for (const StepRecord& r : pending_) {
    table.insert(table.end(), {r.step_ms, r.data_ms, r.forward_ms, r.exposed_ms, r.update_ms, r.loss, r.page_faults});
  }
  sum_over_ranks(context_, table);
  const double scale = 1.0 / context_.size();
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    StepRecord& r = pending_[i];
    const double* row = &table[i * kColumns];
    r.step_ms = row[0] * scale;
    r.data_ms = row[1] * scale;
    r.forward_ms = row[2] * scale;
    r.exposed_ms = row[3] * scale;
    r.update_ms = row[4] * scale;
    r.loss = row[5] * scale;
    r.page_faults = row[6] * scale;
    r.images_per_s = r.step_ms > 0 ? 1000.0 * global_batch_ / r.step_ms : 0.0;
    reporter_.step(r);
  }
  pending_.clear();
  return losses;
}

}  // namespace imagenet

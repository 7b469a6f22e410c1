#include "schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace imagenet {

double Schedule::learning_rate(double epoch, double steps_per_epoch) const {
  if (epoch < warmup_epochs) return peak * std::min(1.0, (epoch + 1.0 / steps_per_epoch) / warmup_epochs);
  if (kind == ScheduleKind::cosine) {
    const double span = std::max(epochs - warmup_epochs, 1.0 / steps_per_epoch);
    const double done = std::min(1.0, (epoch - warmup_epochs) / span);
    return peak * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  }
  const auto passed = std::count_if(milestones.begin(), milestones.end(), [&](double m) { return epoch >= m; });
  return peak * std::pow(0.1, static_cast<double>(passed));
}

Schedule make_schedule(const Options& options, int global_batch) {
  return {.peak = options.lr * global_batch / 256.0,
          .warmup_epochs = options.warmup_epochs,
          .epochs = static_cast<double>(options.epochs),
          .kind = options.schedule,
          .milestones = options.milestones};
}

}  // namespace imagenet

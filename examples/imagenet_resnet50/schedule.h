#pragma once
// The learning rate as a pure function of how far training is.
#include <vector>

#include "options.h"

namespace imagenet {

//   lr                       step                      lr                  cosine
//   peak      /-----------.                            peak      /--.
//           /             |                                    /      `.
//         /               '-----.                            /          `.
//       /                       '---                       /              `-.
//      warm-up    30    60   80   epochs                  warm-up           epochs
struct Schedule {
  double peak = 0;
  double warmup_epochs = 0;
  double epochs = 0;
  ScheduleKind kind = ScheduleKind::step;
  std::vector<double> milestones;

  // For the step that begins at `epoch` (fractional) when an epoch has `steps_per_epoch` steps. The warm-up is linear
  // and reaches the peak with its last step; the cosine ends at 0 after the last epoch.
  [[nodiscard]] double learning_rate(double epoch, double steps_per_epoch) const;
};

// `global_batch`: images a step over all ranks; the peak is options.lr * global_batch / 256.
Schedule make_schedule(const Options& options, int global_batch);

}  // namespace imagenet

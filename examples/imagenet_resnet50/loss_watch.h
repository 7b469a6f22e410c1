#pragma once
// Losses that are NaN or infinite: a warning for each, and the end of the run after 20 steps in a row.
#include <torch/nn/module.h>

#include <cstdint>
#include <span>
#include <string>

#include "kolo/context.h"
#include "report.h"

namespace imagenet {

class LossWatch {
 public:
  LossWatch(kolo::Context& context, Reporter& reporter, OnNan on_nan)
      : context_(context), reporter_(reporter), on_nan_(on_nan) {}

  // Losses of this rank in the steps `first`, `first` + 1 and so on. Warns of the first of consecutive steps whose loss
  // is not finite on some rank, and if the ranks change. Returns why the run must end, or "". Collective: every rank
  // passes the same steps, and gets the same text.
  [[nodiscard]] std::string check(std::int64_t first, std::span<const double> losses);

 private:
  kolo::Context& context_;
  Reporter& reporter_;
  OnNan on_nan_;
  int consecutive_ = 0;
  std::string ranks_;  // of the last step whose loss was not finite
};

// The first weight or BatchNorm statistic of the model that is not finite, or "". Collective: every rank gets the same
// text, with the ranks.
[[nodiscard]] std::string non_finite_state(kolo::Context& context, const torch::nn::Module& model);

}  // namespace imagenet

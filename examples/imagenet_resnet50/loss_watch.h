#pragma once
// Detects losses that are NaN or infinite. LossWatch warns, and ends the run after 20 consecutive such steps.
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

  // `losses` are those of this rank, beginning with step `first`. Warns at the first non-finite loss of a sequence of
  // steps, and when the set of affected ranks changes. Returns the reason to end the run, or "". Collective: every rank
  // passes the same steps and gets the same text.
  [[nodiscard]] std::string check(std::int64_t first, std::span<const double> losses);

 private:
  kolo::Context& context_;
  Reporter& reporter_;
  OnNan on_nan_;
  int consecutive_ = 0;
  std::string ranks_;  // of the last step whose loss was not finite
};

// Names the first weight or BatchNorm statistic that is not finite, and the ranks; "" if all are finite. Collective:
// every rank gets the same text.
[[nodiscard]] std::string non_finite_state(kolo::Context& context, const torch::nn::Module& model);

}  // namespace imagenet

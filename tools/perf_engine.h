#pragma once
// kolo perf engine: the whole path of a training step's gradients, without the training.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kolo/context.h"

namespace kolo::tools {

// Element counts of ResNet-50's 161 parameter tensors, in the model's order: 25,557,032 in all.
[[nodiscard]] std::vector<std::int64_t> resnet50_counts();

struct EngineResult {
  std::string way;        // "flat", "named views", "named copies", "rounds", "small"
  std::size_t bytes = 0;  // reduced by one repetition
  double p50_us = 0;
  double p99_us = 0;
  std::size_t wrong = 0;        // elements, on this rank
  double control_messages = 0;  // of this rank, per repetition
};

// Collective. The ways take turns; inputs are written anew before each.
[[nodiscard]] std::vector<EngineResult> measure_engine(Context& context, int iterations);

// What this process takes of a core while nothing is asked of it: processor time over time.
[[nodiscard]] double measure_idle();

}  // namespace kolo::tools

#pragma once
// begin_update(): the work of one thread.
#include <cmath>

#include "kernels/device_run.h"
#include "kernels/update_state.h"

namespace kolo::kernels {

[[nodiscard]] KOLO_HOST_DEVICE inline double power(double base, std::uint32_t exponent) {
  double result = 1.0;
  for (double square = base; exponent != 0; exponent >>= 1, square *= square) {
    if ((exponent & 1) != 0) result *= square;
  }
  return result;
}

KOLO_HOST_DEVICE inline void begin_update_body(const BeginUpdate& begin, const Position& at) {
  if (at.block != 0 || at.thread != 0) return;
  UpdateState& state = *begin.state;
  if (begin.skip != nullptr && *begin.skip != 0) {
    ++state.skipped;
    return;
  }
  ++state.steps;
  state.correction1 = static_cast<float>(1.0 - power(begin.beta1, state.steps));
  state.correction2_root = static_cast<float>(sqrt(1.0 - power(begin.beta2, state.steps)));
}

}  // namespace kolo::kernels

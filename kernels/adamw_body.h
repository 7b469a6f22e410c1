#pragma once
// What one thread does of update_adamw().
#include <cmath>

#include "kernels/adamw_arguments.h"
#include "kernels/floating.h"
#include "kernels/update_run.h"

namespace kolo::kernels {

struct AdamwRule {
  KOLO_HOST_DEVICE explicit AdamwRule(const AdamwArguments& arguments)
      : a(arguments),
        scale(gradient_scale(arguments.gradients)),
        step(arguments.lr / arguments.gradients.state->correction1),
        root(arguments.gradients.state->correction2_root) {}

  KOLO_HOST_DEVICE void operator()(float gradient, float (&values)[3]) const {
    auto& [weight, first, second] = values;
    const float g = gradient * scale;
    first = a.keep1 * first + a.take1 * g;
    second = a.keep2 * second + a.take2 * g * g;
    weight = weight * a.shrink - step * first / (sqrtf(second) / root + a.epsilon);
  }

  const AdamwArguments& a;
  float scale;
  float step;
  float root;
};

KOLO_HOST_DEVICE inline void adamw_body(const AdamwArguments& arguments, const Position& at) {
  with_small_floating(arguments.gradients.dtype, [&](auto gradient) {
    update_chunks<decltype(gradient), 3>(arguments.table, arguments.gradients, AdamwRule(arguments), at);
  });
}

}  // namespace kolo::kernels

#pragma once
// What one thread does of update_adamw().
#include <cmath>

#include "kernels/adamw_arguments.h"
#include "kernels/update_run.h"

namespace kolo::kernels {

struct AdamwRule {
  const AdamwArguments& a;

  KOLO_HOST_DEVICE void operator()(float gradient, float (&values)[3]) const {
    auto& [weight, first, second] = values;
    const float g = gradient * a.scale;
    first = a.keep1 * first + a.take1 * g;
    second = a.keep2 * second + a.take2 * g * g;
    weight = weight * a.shrink - a.step * first / (sqrtf(second) / a.root + a.epsilon);
  }
};

KOLO_HOST_DEVICE inline void adamw_body(const AdamwArguments& arguments, const Position& at) {
  if (is_left(arguments.leave)) return;
  update_chunks<3>(arguments.table, AdamwRule{arguments}, at);
}

}  // namespace kolo::kernels

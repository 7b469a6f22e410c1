#pragma once
// What one thread does of update_sgd().
#include "kernels/sgd_arguments.h"
#include "kernels/update_run.h"

namespace kolo::kernels {

struct SgdRule {
  const SgdArguments& a;

  [[nodiscard]] KOLO_HOST_DEVICE float decayed(float gradient, float weight) const {
    const float g = gradient * a.scale;
    return a.with_decay ? g + a.decay * weight : g;
  }
};

struct MomentumRule : SgdRule {
  KOLO_HOST_DEVICE void operator()(float gradient, float (&values)[2]) const {
    auto& [weight, momentum] = values;
    const float g = decayed(gradient, weight);
    momentum = a.first ? g : a.keep * momentum + a.take * g;
    weight -= a.lr * (a.nesterov ? g + a.keep * momentum : momentum);
  }
};

struct PlainSgdRule : SgdRule {
  KOLO_HOST_DEVICE void operator()(float gradient, float (&values)[1]) const {
    values[0] -= a.lr * decayed(gradient, values[0]);
  }
};

KOLO_HOST_DEVICE inline void sgd_body(const SgdArguments& arguments, const Position& at) {
  if (is_left(arguments.leave)) return;
  if (arguments.with_momentum) {
    update_chunks<2>(arguments.table, MomentumRule{{arguments}}, at);
  } else {
    update_chunks<1>(arguments.table, PlainSgdRule{{arguments}}, at);
  }
}

}  // namespace kolo::kernels

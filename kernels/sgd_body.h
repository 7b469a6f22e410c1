#pragma once
// What one thread does of update_sgd().
#include "kernels/floating.h"
#include "kernels/sgd_arguments.h"
#include "kernels/update_run.h"

namespace kolo::kernels {

// The same for all elements.
struct SgdConstants {
  float scale;
  float lr;
  float keep;
  float take;
  float decay;
  bool with_decay;
  bool nesterov;
  bool first;

  KOLO_HOST_DEVICE explicit SgdConstants(const SgdArguments& a)
      : scale(gradient_scale(a.gradients)),
        lr(a.lr),
        keep(a.keep),
        take(a.take),
        decay(a.decay),
        with_decay(a.with_decay),
        nesterov(a.nesterov),
        first(a.gradients.state->steps <= 1) {}

  KOLO_HOST_DEVICE float decayed(float gradient, float weight) const {
    const float g = gradient * scale;
    return with_decay ? g + decay * weight : g;
  }
};

struct MomentumRule : SgdConstants {
  using SgdConstants::SgdConstants;
  KOLO_HOST_DEVICE void operator()(float gradient, float (&values)[2]) const {
    auto& [weight, momentum] = values;
    const float g = decayed(gradient, weight);
    momentum = first ? g : keep * momentum + take * g;
    weight -= lr * (nesterov ? g + keep * momentum : momentum);
  }
};

struct PlainSgdRule : SgdConstants {
  using SgdConstants::SgdConstants;
  KOLO_HOST_DEVICE void operator()(float gradient, float (&values)[1]) const {
    values[0] -= lr * decayed(gradient, values[0]);
  }
};

KOLO_HOST_DEVICE inline void sgd_body(const SgdArguments& arguments, const Position& at) {
  with_small_floating(arguments.gradients.dtype, [&](auto gradient) {
    using Gradient = decltype(gradient);
    if (arguments.with_momentum) {
      update_chunks<Gradient, 2>(arguments.table, arguments.gradients, MomentumRule(arguments), at);
    } else {
      update_chunks<Gradient, 1>(arguments.table, arguments.gradients, PlainSgdRule(arguments), at);
    }
  });
}

}  // namespace kolo::kernels

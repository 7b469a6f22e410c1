#pragma once
// What AdamW computes from its terms alone, once for each step. The host's loops and the device's kernel share it,
// because all ranks must get the same bits.
#include <cmath>
#include <cstdint>

#include "kolo/spi/optimizer_step.h"

namespace kolo::base {

// base^exponent by repeated squaring. std::pow is not an alternative: libm chooses its code by the processor, and the
// last bit of the result can differ. REQUIRES: exponent >= 0.
[[nodiscard]] inline double power(double base, std::int64_t exponent) noexcept {
  double result = 1;
  for (double square = base; exponent != 0; exponent /= 2, square *= square) {
    if (exponent % 2 != 0) result *= square;
  }
  return result;
}

// In fp64. Each is rounded once more, to the type of the loop that uses it.
struct AdamwFactors {
  double step = 0;    // lr / (1 - beta1^t)
  double shrink = 1;  // 1 - lr * weight_decay
  double keep1 = 0;   // beta1
  double take1 = 0;   // 1 - beta1
  double keep2 = 0;
  double take2 = 0;
  double root = 1;  // sqrt(1 - beta2^t)
  double epsilon = 0;
};

[[nodiscard]] inline AdamwFactors adamw_factors(const AdamwTerms& terms) noexcept {
  return {terms.lr / (1 - power(terms.beta1, terms.number)),
          1 - terms.lr * terms.weight_decay,
          terms.beta1,
          1 - terms.beta1,
          terms.beta2,
          1 - terms.beta2,
          std::sqrt(1 - power(terms.beta2, terms.number)),
          terms.epsilon};
}

}  // namespace kolo::base

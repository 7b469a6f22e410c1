#pragma once
// The inner loop of FusedSGD, on plain memory.
#include <cstddef>

namespace kolo {

struct SgdTerms {
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the momentum buffer holds nothing yet: it becomes the gradient
};

// With g' = g + weight_decay * w, or g where weight_decay is 0:
//   m = first ? g' : momentum * m + (1 - dampening) * g'        w -= lr * (nesterov ? g' + momentum * m : m)
// `momentum` may be null: then w -= lr * g'. The three arrays do not overlap. Every rounding is that of one operation
// in the element's type, in this order, on every processor.
void sgd_update(float* weight, float* momentum, const float* gradient, std::size_t count, const SgdTerms& terms);
void sgd_update(double* weight, double* momentum, const double* gradient, std::size_t count, const SgdTerms& terms);

}  // namespace kolo

#pragma once
// The inner loop of FusedSGD, on plain memory.
#include <cstddef>

#include "kolo/optimizer_step.h"

namespace kolo {

// `momentum` may be null: there is none. The three arrays do not overlap. Every rounding is that of one operation in
// the element's type, in the order of SgdTerms, on every processor.
void sgd_update(float* weight, float* momentum, const float* gradient, std::size_t count, const SgdTerms& terms);
void sgd_update(double* weight, double* momentum, const double* gradient, std::size_t count, const SgdTerms& terms);

}  // namespace kolo

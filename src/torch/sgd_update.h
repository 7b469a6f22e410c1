#pragma once
// The inner loop of FusedSGD, on plain memory.
#include "kolo/optimizer_step.h"
#include "torch/update_arrays.h"

namespace kolo {

// Each operation is rounded in the type of update_element.h, in the order of SgdTerms. So each element has the same
// bits on every processor, and wherever it lies in the array. REQUIRES: the momentum is there if terms.momentum is not
// 0.
void sgd_update(const UpdateArrays& arrays, const SgdTerms& terms);

}  // namespace kolo

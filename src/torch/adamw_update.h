#pragma once
// The inner loop of FusedAdamW, on plain memory.
#include "kolo/optimizer_step.h"
#include "torch/update_arrays.h"

namespace kolo {

// Rounds each operation to the type of update_element.h, in the order of AdamwTerms. Factors that
// depend on the terms alone are computed in fp64 and rounded to that type. An element has the same
// bits on every processor and at every place in the array. REQUIRES: all four arrays.
void adamw_update(const UpdateArrays& arrays, const AdamwTerms& terms);

}  // namespace kolo

#pragma once
// The inner loop of FusedAdamW, on plain memory.
#include "kolo/optimizer_step.h"
#include "torch/update_arrays.h"

namespace kolo {

// Each operation is rounded in the type of update_element.h, in the order of AdamwTerms. What depends on the terms
// alone is computed in fp64 and rounded to that type. So each element has the same bits on every processor, and
// wherever it lies in the array. REQUIRES: all four arrays.
void adamw_update(const UpdateArrays& arrays, const AdamwTerms& terms);

}  // namespace kolo

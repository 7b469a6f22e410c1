#pragma once
// SGD over many tensors in one launch: gradients are read where they lie, as in a reduced bucket; weights and momenta
// stay where they are. It moves 20 bytes an element, 12 without momentum.
#include "kernels/update_launch.h"
#include "kolo/spi/optimizer_step.h"

namespace kolo::kernels {

// Three columns: gradients, weights, and, if momentum is not 0, momenta. What it computes: SgdTerms, every operation
// rounded to fp32, in that order. Throws UsageError for a table of other columns, or addresses that are not aligned.
void update_sgd(const UpdateLaunch& launch, const SgdTerms& terms);

}  // namespace kolo::kernels

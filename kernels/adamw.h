#pragma once
// AdamW over many tensors in one launch, as kernels/sgd.h has it for SGD: 28 bytes an element.
#include "kernels/update_launch.h"
#include "kolo/spi/optimizer_step.h"

namespace kolo::kernels {

// Four columns: gradients, weights, first and second moments. What it computes: AdamwTerms, from left to right, every
// operation rounded to fp32; what depends on neither g, m, v nor w is formed in fp64 and rounded. UsageError as for
// update_sgd().
void update_adamw(const UpdateLaunch& launch, const AdamwTerms& terms);

}  // namespace kolo::kernels

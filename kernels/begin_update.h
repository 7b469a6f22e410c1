#pragma once
#include "cuda/kernel.h"
#include "kernels/update_state.h"
#include "kolo/stream.h"

namespace kolo::kernels {

// Enqueued in `stream`, once a step and before the updates of its buckets: counts the step, or that it is skipped. The
// powers of beta are formed in fp64 by repeated squaring, so that they are the same numbers everywhere.
void begin_update(cuda::KernelImage& image, const BeginUpdate& begin, Stream stream);

}  // namespace kolo::kernels

#pragma once
// The launch behind kolo/images.h.
#include "cuda/kernel.h"
#include "kolo/data/images.h"
#include "kolo/types.h"

namespace kolo::kernels {

// Enqueued in `stream`: byte * factor + shift (ChannelTerms), every operation rounded to fp32, and then to `dtype`.
// Full speed takes rows of a multiple of four pixels, and `pixels` and `out` on addresses of allocations. Throws
// UsageError for another type, or a batch of more than 2^32 pixels.
void normalize_images(cuda::KernelImage& image, const ImageBatch& batch, Stream stream);

}  // namespace kolo::kernels

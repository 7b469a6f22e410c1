#pragma once
// Converts a batch of decoded images to normalised floats, on the CPU or a GPU. Link kolo::torch.
//
//   const at::Tensor input = kolo::normalize_images(context, bytes.to(device));
#include <ATen/core/Tensor.h>

#include "kolo/context.h"
#include "kolo/data/images.h"
#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {

struct NormalizeOptions {
  ChannelNumbers mean = kImageNetMean;
  ChannelNumbers deviation = kImageNetDeviation;
  c10::ScalarType dtype = c10::kFloat;  // of the result: float, half or bfloat16
  at::MemoryFormat format = at::MemoryFormat::ChannelsLast;
};

// Returns byte * factor + shift (ChannelTerms) for `bytes` [n, 3, h, w] in uint8, computed in fp32 and rounded to
// `dtype`; every device returns identical bits. `flips` [n] in uint8 or bool, on the same device: an image with a flip
// that is not 0 is mirrored left to right. An undefined `flips` mirrors no image.
//
// Not collective. Stream order: enqueued in the current stream; the CPU does not wait. After a DistributedOptimizer
// uses a GPU, one kernel converts a batch there; otherwise several LibTorch operations do. For that kernel, bytes that
// are not in channels_last are copied first. Throws UsageError for other shapes, types and devices, for a deviation
// that is not above 0, and for 2^32 or more pixels.
[[nodiscard]] at::Tensor normalize_images(Context& context, const at::Tensor& bytes,
                                          const NormalizeOptions& options = {}, const at::Tensor& flips = {});

}  // namespace kolo

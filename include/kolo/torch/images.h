#pragma once
// Images from the bytes of a decoder to what a network takes, where they are.
#include <ATen/core/Tensor.h>

#include "kolo/context.h"
#include "kolo/export.h"
#include "kolo/images.h"

namespace KOLO_EXPORT kolo {

struct NormalizeOptions {
  ChannelNumbers mean = kImageNetMean;
  ChannelNumbers deviation = kImageNetDeviation;
  c10::ScalarType dtype = c10::kFloat;  // of the result: float, half or bfloat16
  at::MemoryFormat format = at::MemoryFormat::ChannelsLast;
};

// `bytes` [n, 3, h, w] in uint8 become byte * factor + shift (ChannelTerms), every operation rounded to fp32, and then
// to `dtype`: the same bits on every device. `flips` [n] in uint8 or bool, on the same device: an image whose flip is
// not 0 is mirrored left to right; undefined: none is.
//
// Not collective. Enqueued in the current stream; the host waits for nothing. On a GPU it is one launch once a
// DistributedOptimizer over gradients there has been made, else some of LibTorch's; for that launch bytes that are not
// in channels_last are copied first. Throws UsageError for other shapes, types and devices, for a deviation that is not
// above 0, and for 2^32 pixels.
[[nodiscard]] at::Tensor normalize_images(Context& context, const at::Tensor& bytes,
                                          const NormalizeOptions& options = {}, const at::Tensor& flips = {});

}  // namespace kolo

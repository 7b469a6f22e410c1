#pragma once
// Images from the bytes of a decoder to what a network takes, where they are.
#include <ATen/core/Tensor.h>

#include <array>

#include "kolo/context.h"

namespace kolo {

// The defaults are ImageNet's numbers.
struct NormalizeOptions {
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};  // of R, G, B in 0..1
  std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};
  c10::ScalarType dtype = c10::kFloat;  // of the result: float, half or bfloat16
  at::MemoryFormat format = at::MemoryFormat::ChannelsLast;
};

// `bytes` [n, 3, h, w] in uint8 become pixel * (1 / (255 * deviation)) + (-mean / deviation), every operation rounded
// to fp32, and then to `dtype`: the same bits on every device. It is the formula of kolo::data's loader, too. `flips`
// [n] in uint8 or bool, on the same device: an image whose flip is not 0 is mirrored left to right; undefined: none is.
//
// Not collective. Enqueued in the current stream. On a GPU it is one launch once a DistributedOptimizer over gradients
// there has been made, else some of LibTorch's; bytes that are not in channels_last are copied first. Throws UsageError
// for other shapes, types and devices.
[[nodiscard]] at::Tensor normalize_images(Context& context, const at::Tensor& bytes,
                                          const NormalizeOptions& options = {}, const at::Tensor& flips = {});

}  // namespace kolo

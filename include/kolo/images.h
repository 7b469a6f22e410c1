#pragma once
// Images as a decoder leaves them, bytes, into what a network takes: one launch for a batch. Without LibTorch; with it,
// kolo/torch/images.h.
#include <array>
#include <cstddef>
#include <cstdint>

#include "kolo/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// Of the images of a batch: nhwc is what LibTorch calls channels_last.
enum class ImageLayout : std::uint8_t { nhwc, nchw };

using ChannelNumbers = std::array<float, 3>;  // of R, G, B

// Of ImageNet's images, in 0..1.
inline constexpr ChannelNumbers kImageNetMean{0.485F, 0.456F, 0.406F};
inline constexpr ChannelNumbers kImageNetDeviation{0.229F, 0.224F, 0.225F};

// byte * factor + shift = (byte / 255 - mean) / deviation
struct ChannelTerms {
  ChannelTerms(const ChannelNumbers& mean, const ChannelNumbers& deviation) noexcept {
    for (std::size_t c = 0; c < factor.size(); ++c) {
      factor[c] = 1.0F / (255.0F * deviation[c]);
      shift[c] = -mean[c] / deviation[c];
    }
  }
  ChannelNumbers factor{};
  ChannelNumbers shift{};
};

struct ImageBatch {
  const std::uint8_t* pixels = nullptr;  // [images, height, width, 3], device memory
  const std::uint8_t* flips = nullptr;   // [images], device memory: not 0 mirrors that image left to right; may be null
  void* out = nullptr;                   // device memory, aligned to its elements
  std::size_t images = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  DType dtype = DType::f32;  // of `out`: f32, f16 or bf16
  ImageLayout layout = ImageLayout::nhwc;
  ChannelNumbers mean{};  // in 0..1
  ChannelNumbers deviation{1, 1, 1};
};

}  // namespace kolo

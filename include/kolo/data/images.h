#pragma once
// The conversion of decoded images (bytes) to normalised floats, without LibTorch. With LibTorch:
// kolo/data/normalize_images.h.
//
//   const kolo::ChannelTerms terms(kolo::kImageNetMean, kolo::kImageNetDeviation);
//   const float red = 128 * terms.factor[0] + terms.shift[0];
#include <array>
#include <cstddef>
#include <cstdint>

#include "kolo/detail/export.h"
#include "kolo/types.h"

namespace KOLO_EXPORT kolo {

// nhwc is LibTorch's channels_last.
enum class ImageLayout : std::uint8_t { nhwc, nchw };

using ChannelNumbers = std::array<float, 3>;  // one value for R, G and B

// Statistics of the images of ImageNet, in 0..1.
inline constexpr ChannelNumbers kImageNetMean{0.485F, 0.456F, 0.406F};
inline constexpr ChannelNumbers kImageNetDeviation{0.229F, 0.224F, 0.225F};

// Factor and shift that normalise a byte of each channel: byte * factor + shift = (byte / 255 - mean) / deviation.
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

// Device pointers of a batch, for Engine::normalize_images() (kolo/spi/engine.h).
struct ImageBatch {
  const std::uint8_t* pixels = nullptr;  // [images, height, width, 3], device memory
  const std::uint8_t* flips = nullptr;   // [images], device memory: not 0 mirrors the image left to right; or null
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

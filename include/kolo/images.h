#pragma once
// Images as a decoder leaves them, bytes, into what a network takes: one launch for a batch. Without LibTorch; with it,
// kolo/torch/images.h.
#include <array>
#include <cstddef>
#include <cstdint>

#include "kolo/types.h"

namespace kolo {

// nhwc is what LibTorch calls channels_last.
enum class ImageLayout : std::uint8_t { nhwc, nchw };

struct ImageBatch {
  const std::uint8_t* pixels = nullptr;  // [images, height, width, 3], device memory
  const std::uint8_t* flips = nullptr;   // [images], device memory: not 0 mirrors that image left to right; may be null
  void* out = nullptr;                   // device memory, aligned to its elements
  std::size_t images = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  DType dtype = DType::f32;  // of `out`: f32, f16 or bf16
  ImageLayout layout = ImageLayout::nhwc;
  std::array<float, 3> mean{};  // of R, G, B in 0..1
  std::array<float, 3> deviation{1, 1, 1};
};

}  // namespace kolo

#pragma once
#include <cstddef>
#include <cstdint>

#include "kolo/types.h"

namespace kolo::kernels {

// What kolo_images takes.
struct ImagesArguments {
  const std::byte* pixels = nullptr;
  const std::byte* flips = nullptr;
  std::byte* out = nullptr;
  std::uint32_t images = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  DType dtype = DType::f32;
  bool channels_last = true;
  float factor[3] = {};
  float shift[3] = {};
};

}  // namespace kolo::kernels

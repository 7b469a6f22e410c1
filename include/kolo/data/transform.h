#pragma once
// The crop, the flip and the normalisation of images.
//
//   kolo::data::TransformOptions transform{.augment = kolo::data::Augment::eval, .image_size = 224};
#include <cstdint>

#include "kolo/data/images.h"
#include "kolo/detail/export.h"

namespace KOLO_EXPORT kolo {
namespace data {

enum class Augment : std::uint8_t {
  train,  // random resized crop and horizontal flip
  eval,   // resize of the shorter side to image_size * 256 / 224, then centre crop, as torchvision on a PIL image
};

using Layout = ImageLayout;

// f32: normalised floats. u8: bytes, rounded to the nearest, which need a quarter of the memory; normalize_images()
// (kolo/data/normalize_images.h) converts them on the GPU.
enum class PixelType : std::uint8_t { f32, u8 };

// Describes how an image becomes image_size x image_size RGB values. The defaults are the classic ImageNet recipe.
struct TransformOptions {
  Augment augment = Augment::train;
  int image_size = 224;
  Layout layout = Layout::nhwc;
  PixelType pixels = PixelType::f32;
  // The random crop and flip of Augment::train:
  double min_area = 0.08;  // relative to the image
  double max_area = 1.0;
  double min_aspect = 3.0 / 4.0;  // width / height
  double max_aspect = 4.0 / 3.0;
  double flip_probability = 0.5;
  // For PixelType::f32 only.
  ChannelNumbers mean = kImageNetMean;
  ChannelNumbers deviation = kImageNetDeviation;
};

}  // namespace data
}  // namespace kolo

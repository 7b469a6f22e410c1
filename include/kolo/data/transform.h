#pragma once
#include <cstdint>

#include "kolo/export.h"
#include "kolo/images.h"

namespace KOLO_EXPORT kolo {
namespace data {

enum class Augment : std::uint8_t {
  train,  // random resized crop and horizontal flip
  eval,   // at full size, shorter side to image_size * 256 / 224, then the centre crop: as torchvision on a PIL image
};

using Layout = ImageLayout;

// Of a batch's images: normalised floats; or bytes, each rounded to the nearest, for whoever normalises them where they
// are used, as normalize_images() does (kolo/torch/images.h): a quarter of the memory, and of what is copied to a GPU.
enum class PixelType : std::uint8_t { f32, u8 };

// How an image becomes image_size x image_size x 3 numbers. The defaults are the classic ImageNet recipe.
struct TransformOptions {
  Augment augment = Augment::train;
  int image_size = 224;
  Layout layout = Layout::nhwc;
  PixelType pixels = PixelType::f32;
  double min_area = 0.08;  // of the random crop, relative to the image
  double max_area = 1.0;
  double min_aspect = 3.0 / 4.0;  // width / height
  double max_aspect = 4.0 / 3.0;
  double flip_probability = 0.5;
  // Of floats. Bytes are normalised by who uses them, with numbers of his own.
  ChannelNumbers mean = kImageNetMean;
  ChannelNumbers deviation = kImageNetDeviation;
};

}  // namespace data
}  // namespace kolo

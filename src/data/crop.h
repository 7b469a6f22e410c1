#pragma once
#include "image.h"
#include "kolo/data/transform.h"
#include "random.h"

namespace kolo::data {

// Where the output's pixels come from along one axis, in the image's pixels: output i covers
// [start + i * step, start + (i + 1) * step). The filter may look beyond that, but only inside [low, high).
struct Axis {
  double start = 0;
  double step = 1;
  int low = 0;
  int high = 0;

  [[nodiscard]] Axis reduced(int reduction) const;
};

struct Crop {
  Axis x;
  Axis y;
  bool flip = false;
};

// A rectangle of random area and aspect at a random place, resized to image_size (after ten misses: the largest central
// one of allowed aspect). The filter does not look beyond the rectangle: first cropped, then resized.
[[nodiscard]] Crop random_crop(int width, int height, const TransformOptions& options, SampleRandom& random);

// First resized, so that the shorter side has image_size * 256 / 224 pixels, then the central square.
[[nodiscard]] Crop central_crop(int width, int height, int image_size);

}  // namespace kolo::data

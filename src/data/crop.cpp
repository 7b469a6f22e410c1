#include "crop.h"

#include <algorithm>
#include <cmath>

namespace kolo::data {
namespace {

constexpr int kAttempts = 10;

Crop from_window(const Window& window, int image_size) {
  return {{static_cast<double>(window.x), static_cast<double>(window.width) / image_size, window.x,
           window.x + window.width},
          {static_cast<double>(window.y), static_cast<double>(window.height) / image_size, window.y,
           window.y + window.height},
          false};
}

Window largest_central(int width, int height, const TransformOptions& options) {
  const double aspect = static_cast<double>(width) / height;
  int w = width;
  int h = height;
  if (aspect < options.min_aspect) h = std::max(1, static_cast<int>(std::lround(w / options.min_aspect)));
  if (aspect > options.max_aspect) w = std::max(1, static_cast<int>(std::lround(h * options.max_aspect)));
  h = std::min(h, height);
  w = std::min(w, width);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Window random_window(int width, int height, const TransformOptions& options, SampleRandom& random) {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double target = area * random.uniform(options.min_area, options.max_area);
    const double aspect = std::exp(random.uniform(std::log(options.min_aspect), std::log(options.max_aspect)));
    const int w = static_cast<int>(std::lround(std::sqrt(target * aspect)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / aspect)));
    if (w > 0 && w <= width && h > 0 && h <= height) {
      const int y = random.below(height - h + 1);
      const int x = random.below(width - w + 1);
      return {x, y, w, h};
    }
  }
  return largest_central(width, height, options);
}

// The central image_size of `resized` pixels that an axis of `extent` pixels would be resized to. Half a pixel is
// rounded to the even offset, as in torchvision's CenterCrop.
Axis central_axis(int extent, int resized, int image_size) {
  const double step = static_cast<double>(extent) / resized;
  const int twice = resized - image_size;
  const int offset = twice / 2 + (twice % 4 == 3 ? 1 : 0);
  return {offset * step, step, 0, extent};
}

}  // namespace

Axis Axis::reduced(int reduction) const {
  return {start / reduction, step / reduction, low / reduction, (high + reduction - 1) / reduction};
}

Crop random_crop(int width, int height, const TransformOptions& options, SampleRandom& random) {
  Crop crop = from_window(random_window(width, height, options, random), options.image_size);
  crop.flip = random.uniform() < options.flip_probability;
  return crop;
}

Crop central_crop(int width, int height, int image_size) {
  const int shorter = std::max(image_size, image_size * 256 / 224);
  const auto longer = [&](int extent, int other) {
    return static_cast<int>(static_cast<std::int64_t>(shorter) * extent / other);
  };
  const int resized_width = width <= height ? shorter : longer(width, height);
  const int resized_height = height <= width ? shorter : longer(height, width);
  return {central_axis(width, resized_width, image_size), central_axis(height, resized_height, image_size), false};
}

}  // namespace kolo::data

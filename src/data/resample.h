#pragma once
#include <vector>

#include "crop.h"
#include "image.h"
#include "kolo/data/transform.h"

namespace kolo::data {

// For every output pixel along an axis: which inputs it is made of and by how much. A triangle as wide as two output
// pixels (but at least two input pixels), normalised: bilinear when enlarging, antialiased when shrinking.
class AxisWeights {
 public:
  void build(const Axis& axis, int count);
  [[nodiscard]] int first(int output) const noexcept { return first_[static_cast<std::size_t>(output)]; }
  [[nodiscard]] int taps(int output) const noexcept { return taps_[static_cast<std::size_t>(output)]; }
  [[nodiscard]] const float* weights(int output) const noexcept {
    return weights_.data() + static_cast<std::size_t>(output) * stride_;
  }
  // The inputs that any output needs.
  [[nodiscard]] int begin() const noexcept { return begin_; }
  [[nodiscard]] int end() const noexcept { return end_; }

 private:
  std::vector<int> first_;
  std::vector<int> taps_;
  std::vector<float> weights_;
  std::size_t stride_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

// Resizes, flips and normalises (or rounds, see PixelType) into one image of a batch. Keeps its scratch memory: one
// object per thread.
class Resampler {
 public:
  explicit Resampler(const TransformOptions& options);
  // The pixels that render() will need for this crop.
  Window prepare(const Crop& crop);
  void render(const Pixels& pixels, bool flip, void* image);

 private:
  void add_rows(const Pixels& pixels, int output_row);
  template <class Pixel>
  void render_as(const Pixels& pixels, bool flip, Pixel* image);
  template <Layout layout, class Pixel>
  void write_row(int left, int output_row, bool flip, Pixel* image) const;

  TransformOptions options_;
  AxisWeights x_;
  AxisWeights y_;
  std::vector<float> line_;  // a weighted sum of rows, still as wide as the input
};

}  // namespace kolo::data

// Vertical first, one output row at a time, so that the scratch memory is one line:
//
//   input rows (bytes)  --weights y-->  line (floats, input width)  --weights x-->  output row, normalised or rounded
#include "resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kolo::data {
namespace {

// Four floats at once; the fourth is padding beside R, G and B.
using Float4 = float __attribute__((vector_size(16)));

// What becomes of sums of bytes.
template <class Pixel>
class Finish {
 public:
  explicit Finish(const TransformOptions& options) {
    const ChannelTerms terms(options.mean, options.deviation);
    for (std::size_t c = 0; c < 3; ++c) {
      factor_[c] = terms.factor[c];
      shift_[c] = terms.shift[c];
    }
  }
  [[nodiscard]] Float4 operator()(Float4 sum) const { return sum * factor_ + shift_; }

 private:
  Float4 factor_{};
  Float4 shift_{};
};

// The weights of a sum are 1 together, but for rounding: it is in 0..255.
template <>
class Finish<std::uint8_t> {
 public:
  explicit Finish(const TransformOptions& /*options*/) {}
  [[nodiscard]] Float4 operator()(Float4 sum) const { return sum + 0.5F; }
};

}  // namespace

void AxisWeights::build(const Axis& axis, int count) {
  const double support = std::max(1.0, axis.step);
  stride_ = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  const auto outputs = static_cast<std::size_t>(count);
  first_.resize(outputs);
  taps_.resize(outputs);
  weights_.resize(outputs * stride_);
  begin_ = axis.high;
  end_ = axis.low;
  for (std::size_t i = 0; i < outputs; ++i) {
    const double centre = axis.start + (static_cast<double>(i) + 0.5) * axis.step;
    int low = std::max(axis.low, static_cast<int>(std::floor(centre - support + 0.5)));
    int high = std::min(axis.high, static_cast<int>(std::floor(centre + support + 0.5)));
    // Rounding after a reduction may leave an output at the very edge without input: it takes the edge.
    low = std::min(low, axis.high - 1);
    high = std::clamp(high, low + 1, low + static_cast<int>(stride_));
    float* weights = weights_.data() + i * stride_;
    double sum = 0;
    for (int j = low; j < high; ++j) sum += std::max(0.0, 1.0 - std::abs(j + 0.5 - centre) / support);
    for (int j = low; j < high; ++j) {
      const double weight = std::max(0.0, 1.0 - std::abs(j + 0.5 - centre) / support);
      weights[j - low] = static_cast<float>(sum > 0 ? weight / sum : 1.0 / (high - low));
    }
    first_[i] = low;
    taps_[i] = high - low;
    begin_ = std::min(begin_, low);
    end_ = std::max(end_, high);
  }
}

Resampler::Resampler(const TransformOptions& options) : options_(options) {}

Window Resampler::prepare(const Crop& crop) {
  x_.build(crop.x, options_.image_size);
  y_.build(crop.y, options_.image_size);
  return {x_.begin(), y_.begin(), x_.end() - x_.begin(), y_.end() - y_.begin()};
}

void Resampler::add_rows(const Pixels& pixels, int output_row) {
  const std::size_t begin = static_cast<std::size_t>(x_.begin() - pixels.window.x) * 3;
  const std::size_t count = static_cast<std::size_t>(x_.end() - x_.begin()) * 3;
  const float* weights = y_.weights(output_row);
  float* line = line_.data();
  for (int tap = 0; tap < y_.taps(output_row); ++tap) {
    const std::uint8_t* row = pixels.row(y_.first(output_row) + tap) + begin;
    const float weight = weights[tap];
    if (tap == 0) {
      for (std::size_t i = 0; i < count; ++i) line[i] = weight * static_cast<float>(row[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) line[i] += weight * static_cast<float>(row[i]);
    }
  }
}

template <Layout layout, class Pixel>
void Resampler::write_row(int left, int output_row, bool flip, Pixel* image) const {
  const int size = options_.image_size;
  const Finish<Pixel> finish(options_);
  for (int x = 0; x < size; ++x) {
    const float* input = line_.data() + static_cast<std::size_t>(x_.first(x) - left) * 3;
    const float* weights = x_.weights(x);
    Float4 sum{};
    for (int tap = 0; tap < x_.taps(x); ++tap, input += 3) {
      Float4 value;
      std::memcpy(&value, input, sizeof(value));
      sum += weights[tap] * value;
    }
    sum = finish(sum);
    const std::size_t pixel = static_cast<std::size_t>(output_row) * static_cast<std::size_t>(size) +
                              static_cast<std::size_t>(flip ? size - 1 - x : x);
    if constexpr (layout == Layout::nhwc) {
      for (std::size_t c = 0; c < 3; ++c) image[pixel * 3 + c] = static_cast<Pixel>(sum[c]);
    } else {
      const std::size_t plane = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
      for (std::size_t c = 0; c < 3; ++c) image[c * plane + pixel] = static_cast<Pixel>(sum[c]);
    }
  }
}

template <class Pixel>
void Resampler::render_as(const Pixels& pixels, bool flip, Pixel* image) {
  const std::size_t needed = static_cast<std::size_t>(x_.end() - x_.begin()) * 3 + 1;  // Float4 reads one too many
  if (line_.size() < needed) line_.resize(needed);
  for (int row = 0; row < options_.image_size; ++row) {
    add_rows(pixels, row);
    if (options_.layout == Layout::nhwc) {
      write_row<Layout::nhwc>(x_.begin(), row, flip, image);
    } else {
      write_row<Layout::nchw>(x_.begin(), row, flip, image);
    }
  }
}

void Resampler::render(const Pixels& pixels, bool flip, void* image) {
  if (options_.pixels == PixelType::u8) {
    render_as(pixels, flip, static_cast<std::uint8_t*>(image));
  } else {
    render_as(pixels, flip, static_cast<float*>(image));
  }
}

}  // namespace kolo::data

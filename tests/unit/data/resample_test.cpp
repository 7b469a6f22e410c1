#include "data/resample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/sample_maker.h"
#include "make_images.h"
#include "one_image.h"
#include "support/sanitizers.h"

namespace kolo::data {
namespace {

Pixels pixels_of(const test::Rgb& image) { return {{0, 0, image.width, image.height}, image.bytes}; }

// The definition, in doubles and without separation: a triangle filter over all inputs that it reaches.
double expected(const test::Rgb& image, const Crop& crop, int ox, int oy, int c) {
  const auto weight = [](const Axis& axis, int output, int input) {
    const double support = std::max(1.0, axis.step);
    return std::max(0.0, 1.0 - std::abs(input + 0.5 - (axis.start + (output + 0.5) * axis.step)) / support);
  };
  double sum = 0;
  double weights = 0;
  for (int y = crop.y.low; y < crop.y.high; ++y) {
    for (int x = crop.x.low; x < crop.x.high; ++x) {
      const double w = weight(crop.x, ox, x) * weight(crop.y, oy, y);
      sum += w * image.at(x, y, c);
      weights += w;
    }
  }
  return sum / weights;
}

void expect_matches(const test::Rgb& image, Crop crop, Layout layout) {
  TransformOptions options;
  options.image_size = 16;
  options.layout = layout;
  Resampler resampler(options);
  const Window window = resampler.prepare(crop);
  ASSERT_GE(window.x, 0);
  ASSERT_LE(window.x + window.width, image.width);
  ASSERT_GE(window.y, 0);
  ASSERT_LE(window.y + window.height, image.height);
  std::vector<float> out(16 * 16 * 3);
  resampler.render(pixels_of(image), crop.flip, out.data());
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x) {
      for (int c = 0; c < 3; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        const double value = expected(image, crop, crop.flip ? 15 - x : x, y, c) / 255;
        const double normal = (value - options.mean[channel]) / options.deviation[channel];
        const int place = layout == Layout::nhwc ? (y * 16 + x) * 3 + c : c * 256 + y * 16 + x;
        ASSERT_NEAR(out[static_cast<std::size_t>(place)], normal, 2e-5) << x << "," << y << "," << c;
      }
    }
  }
}

TEST(Resampler, EqualsTriangleFilter) {
  const test::Rgb image = test::smooth_image(70, 53);
  const Crop shrink{{3, 60.0 / 16, 3, 63}, {5, 41.0 / 16, 5, 46}, false};
  const Crop enlarge{{10, 7.0 / 16, 10, 17}, {20, 9.0 / 16, 20, 29}, true};
  const Crop mixed{{0, 70.0 / 16, 0, 70}, {50, 3.0 / 16, 50, 53}, true};
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    expect_matches(image, shrink, layout);
    expect_matches(image, enlarge, layout);
    expect_matches(image, mixed, layout);
    expect_matches(image, central_crop(70, 53, 16), layout);
  }
}

TEST(Resampler, OnePixelFillsImage) {
  const test::Rgb dot{1, 1, {10, 200, 90}};
  expect_matches(dot, {{0, 1.0 / 16, 0, 1}, {0, 1.0 / 16, 0, 1}, false}, Layout::nhwc);
  expect_matches(dot, central_crop(1, 1, 16), Layout::nhwc);
}

TEST(AxisWeights, SumToOneForEverySize) {
  AxisWeights weights;
  for (const int extent : {1, 2, 3, 17, 224, 4000}) {
    for (const int count : {1, 7, 224}) {
      for (const int reduction : {1, 2, 4, 8}) {
        const Axis axis = Axis{0, static_cast<double>(extent) / count, 0, extent}.reduced(reduction);
        weights.build(axis, count);
        ASSERT_GE(weights.begin(), 0);
        ASSERT_LE(weights.end(), (extent + reduction - 1) / reduction);
        for (int i = 0; i < count; ++i) {
          double sum = 0;
          for (int tap = 0; tap < weights.taps(i); ++tap) sum += weights.weights(i)[tap];
          ASSERT_NEAR(sum, 1.0, 1e-5);
        }
      }
    }
  }
}

// At the edge of the crop, a reduced pixel includes pixels up to seven pixels outside, so a few grey levels of
// difference are right there. A shift by half a pixel would show in the mean.
TEST(SampleMaker, ReducedDecodingOfCropEqualsFullDecoding) {
  const test::Rgb image = test::smooth_image(640, 480);
  for (const Augment augment : {Augment::train, Augment::eval}) {
    TransformOptions options;
    options.augment = augment;
    options.image_size = 32;
    const test::OneImage quick(test::encode(image, test::JpegKind::colour444, 98));
    const test::OneImage thorough(test::encode_png(image));  // a PNG is decoded whole
    SampleMaker maker(options, 7);
    std::vector<float> a(32 * 32 * 3);
    std::vector<float> b(32 * 32 * 3);
    for (std::uint64_t epoch = 0; epoch < kolo::test::fewer_sanitized(40U, 8U); ++epoch) {
      maker.make(quick, 0, epoch, a.data());
      maker.make(thorough, 0, epoch, b.data());
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 0.2) << "epoch " << epoch << " float " << i;
        sum += std::abs(a[i] - b[i]);
      }
      EXPECT_LT(sum / static_cast<double>(a.size()), 0.02) << "epoch " << epoch;
    }
  }
}

TEST(SampleMaker, ImageSmallerThanCropIsEnlarged) {
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 2}, {7, 40}, {40, 7}, {31, 31}}) {
    const test::OneImage tiny(test::encode(test::smooth_image(width, height)));
    for (const Augment augment : {Augment::train, Augment::eval}) {
      TransformOptions options;
      options.augment = augment;
      options.image_size = 64;
      SampleMaker maker(options, 1);
      std::vector<float> out(64 * 64 * 3, NAN);
      for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
        maker.make(tiny, 0, epoch, out.data());
        for (const float value : out) ASSERT_TRUE(value > -3 && value < 3) << width << "x" << height;
      }
    }
  }
}

}  // namespace
}  // namespace kolo::data

#include "data/crop.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kolo::data {
namespace {

TEST(RandomCrop, StaysInsideImageWithAllowedAreaAndAspect) {
  const TransformOptions options;
  SampleRandom random(1, 2, 3);
  double smallest = 1;
  double largest = 0;
  int flips = 0;
  for (int i = 0; i < 4000; ++i) {
    const Crop crop = random_crop(500, 375, options, random);
    const int width = crop.x.high - crop.x.low;
    const int height = crop.y.high - crop.y.low;
    ASSERT_GE(crop.x.low, 0);
    ASSERT_LE(crop.x.high, 500);
    ASSERT_GE(crop.y.low, 0);
    ASSERT_LE(crop.y.high, 375);
    const double area = static_cast<double>(width) * height / (500.0 * 375.0);
    const double aspect = static_cast<double>(width) / height;
    ASSERT_GE(area, 0.079);
    ASSERT_LE(area, 1.0);
    ASSERT_GE(aspect, 0.74);
    ASSERT_LE(aspect, 1.345);
    ASSERT_DOUBLE_EQ(crop.x.step * options.image_size, width);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    flips += crop.flip ? 1 : 0;
  }
  EXPECT_LT(smallest, 0.1);
  EXPECT_GT(largest, 0.9);
  EXPECT_NEAR(flips, 2000, 200);
}

TEST(RandomCrop, ImpossibleAspectFallsBackToCentre) {
  TransformOptions options;
  options.min_area = 0.9;
  SampleRandom random(0, 0, 0);
  const Crop wide = random_crop(1000, 10, options, random);
  EXPECT_EQ(wide.y.low, 0);
  EXPECT_EQ(wide.y.high, 10);
  EXPECT_EQ(wide.x.high - wide.x.low, 13);
  EXPECT_EQ(wide.x.low, 493);
  const Crop tall = random_crop(10, 1000, options, random);
  EXPECT_EQ(tall.x.high - tall.x.low, 10);
  EXPECT_EQ(tall.y.high - tall.y.low, 13);
}

TEST(RandomCrop, ImageOfOnePixelGivesOnePixel) {
  SampleRandom random(0, 0, 0);
  for (int i = 0; i < 100; ++i) {
    const Crop crop = random_crop(1, 1, TransformOptions{}, random);
    EXPECT_EQ(crop.x.high - crop.x.low, 1);
    EXPECT_EQ(crop.y.high - crop.y.low, 1);
  }
}

TEST(SampleRandom, DependsOnlyOnSeedEpochAndIndex) {
  EXPECT_EQ(SampleRandom(1, 2, 3).next(), SampleRandom(1, 2, 3).next());
  EXPECT_NE(SampleRandom(1, 2, 3).next(), SampleRandom(2, 2, 3).next());
  EXPECT_NE(SampleRandom(1, 2, 3).next(), SampleRandom(1, 3, 3).next());
  EXPECT_NE(SampleRandom(1, 2, 3).next(), SampleRandom(1, 2, 4).next());
  EXPECT_NE(SampleRandom(1, 2, 3).next(), SampleRandom(1, 3, 2).next());
}

// resize(256) then centre crop(224), for a 500 x 375 image: resized to 341 x 256, offsets 58.5, rounded to even,
// and 16.
TEST(CentralCrop, EqualsResizeThenCrop) {
  const Crop crop = central_crop(500, 375, 224);
  EXPECT_DOUBLE_EQ(crop.y.step, 375.0 / 256);
  EXPECT_DOUBLE_EQ(crop.y.start, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(crop.x.step, 500.0 / 341);
  EXPECT_DOUBLE_EQ(crop.x.start, 58 * 500.0 / 341);
  EXPECT_EQ(crop.x.low, 0);
  EXPECT_EQ(crop.x.high, 500);
  EXPECT_FALSE(crop.flip);
}

// Widths of 257, 259, 261 and 263 pixels leave 16.5, 17.5, 18.5 and 19.5 on each side.
TEST(CentralCrop, HalfOffsetIsRoundedToEven) {
  for (const auto& [width, offset] : {std::pair{257, 16}, {259, 18}, {261, 18}, {263, 20}, {256, 16}, {258, 17}}) {
    const Crop crop = central_crop(width, 256, 224);
    EXPECT_DOUBLE_EQ(crop.x.step, 1) << width;
    EXPECT_DOUBLE_EQ(crop.x.start, offset) << width;
    EXPECT_DOUBLE_EQ(central_crop(256, width, 224).y.start, offset) << width;
  }
}

TEST(CentralCrop, StaysInsideImageOfAnyShape) {
  for (const int size : {1, 8, 64, 224}) {
    for (const auto& [width, height] : {std::pair{1, 1}, {5, 9}, {64, 64}, {3000, 20}, {20, 3000}, {224, 256}}) {
      const Crop crop = central_crop(width, height, size);
      EXPECT_GE(crop.x.start, 0);
      EXPECT_GE(crop.y.start, 0);
      EXPECT_LE(crop.x.start + size * crop.x.step, width + 1e-9) << width << "x" << height;
      EXPECT_LE(crop.y.start + size * crop.y.step, height + 1e-9) << width << "x" << height;
    }
  }
}

}  // namespace
}  // namespace kolo::data

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/image_decoder.h"
#include "data/jpeg_encoder.h"
#include "jpeg_windows.h"
#include "make_images.h"

namespace kolo::data {
namespace {

using test::JpegKind;
using test::worst_difference;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class ImageDecoderWindow : public ::testing::TestWithParam<std::tuple<JpegKind, int>> {};

TEST_P(ImageDecoderWindow, EqualsSamePartOfWholeImage) {
  const auto [kind, reduction] = GetParam();
  const std::string jpeg = test::encode(test::smooth_image(317, 243), kind);
  const test::Rgb whole = test::decode_whole(jpeg, reduction);
  ImageDecoder decoder;
  Pixels pixels;
  const int w = whole.width;
  const int h = whole.height;
  const Window windows[] = {{0, 0, w, h},
                            {0, 0, 1, 1},
                            {w - 1, h - 1, 1, 1},
                            {w / 3, h / 4, w / 2, h / 2},
                            {w / 2 + 1, 0, w / 3, h},
                            {0, h / 2 + 1, w, h / 3},
                            {5, 7, 11, 13},
                            {w - 9, 3, 9, h - 3}};
  for (const Window& window : windows) {
    decoder.open(bytes_of(jpeg));
    decoder.decode(window, reduction, pixels);
    ASSERT_LE(pixels.window.x, window.x);
    ASSERT_GE(pixels.window.x + pixels.window.width, window.x + window.width);
    ASSERT_LE(pixels.window.y, window.y);
    ASSERT_GE(pixels.window.y + pixels.window.height, window.y + window.height);
    EXPECT_LE(worst_difference(pixels, whole, window), 1)
        << window.x << "," << window.y << " " << window.width << "x" << window.height;
  }
}

INSTANTIATE_TEST_SUITE_P(Jpeg, ImageDecoderWindow,
                         ::testing::Combine(::testing::Values(JpegKind::colour420, JpegKind::colour444,
                                                              JpegKind::progressive, JpegKind::grey),
                                            ::testing::Values(1, 2, 4, 8)));

TEST(ImageDecoder, ConvertsEveryColourSpaceAndReportsIt) {
  const test::Rgb image = test::smooth_image(90, 70);
  const struct {
    std::string file;
    const char* from;
  } cases[] = {{test::encode(image, JpegKind::colour444, 100), ""},
               {test::encode(image, JpegKind::progressive, 100), ""},
               {test::encode(image, JpegKind::cmyk, 100), "CMYK JPEG"},
               {test::encode(image, JpegKind::ycck, 100), "YCCK JPEG"},
               {test::encode_png(image), "PNG"},
               {test::encode_png(image, true), "PNG"}};
  ImageDecoder decoder;
  Pixels pixels;
  for (const auto& [file, from] : cases) {
    const ImageHeader header = decoder.open(bytes_of(file));
    EXPECT_EQ(header.converted_from, from);
    ASSERT_EQ(header.width, 90);
    ASSERT_EQ(header.height, 70);
    decoder.decode({0, 0, 90, 70}, 1, pixels);
    EXPECT_LE(worst_difference(pixels, image, {0, 0, 90, 70}), 8) << from;
  }
}

TEST(ImageDecoder, GreyImageGivesEqualChannels) {
  const test::Rgb image = test::smooth_image(64, 48);
  const std::string jpeg = test::encode(image, JpegKind::grey, 100);
  ImageDecoder decoder;
  Pixels pixels;
  EXPECT_EQ(decoder.open(bytes_of(jpeg)).converted_from, "grey JPEG");
  decoder.decode({0, 0, 64, 48}, 1, pixels);
  EXPECT_NEAR(pixels.row(20)[30 * 3], image.at(30, 20, 0), 3);
  EXPECT_EQ(pixels.row(20)[30 * 3], pixels.row(20)[30 * 3 + 1]);
  EXPECT_EQ(pixels.row(20)[30 * 3], pixels.row(20)[30 * 3 + 2]);
}

TEST(ImageDecoder, BrokenFileIsErrorWithReason) {
  ImageDecoder decoder;
  const std::string jpeg = test::encode(test::smooth_image(64, 64));
  const auto open = [&](std::string content) { return [&decoder, content] { decoder.open(bytes_of(content)); }; };
  EXPECT_THAT(open(""), ThrowsMessage<BrokenImage>(HasSubstr("empty")));
  EXPECT_THAT(open("GIF89a and so on"), ThrowsMessage<BrokenImage>(HasSubstr("neither a JPEG nor a PNG")));
  EXPECT_THAT(open(jpeg.substr(0, jpeg.size() - 10)), ThrowsMessage<BrokenImage>(HasSubstr("truncated")));
  EXPECT_THROW(decoder.open(bytes_of(std::string("\xff\xd8\xff\xd9", 4))), BrokenImage);
  EXPECT_NO_THROW(decoder.open(bytes_of(jpeg))) << "usable after every error";
  EXPECT_NO_THROW(decoder.open(bytes_of(jpeg + "bytes behind the end"))) << "common in ImageNet, harmless";
}

// The error comes when the file is opened or, at the latest, when it is decoded. No missing pixel is invented.
TEST(ImageDecoder, EveryTruncationIsError) {
  const test::Rgb image = test::smooth_image(40, 32);
  ImageDecoder decoder;
  Pixels pixels;
  const std::string files[] = {test::encode(image), test::encode(image, JpegKind::progressive),
                               test::encode_png(image)};
  for (const std::string& file : files) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      const std::string part = file.substr(0, size);
      const auto read = [&] {
        decoder.open(bytes_of(part));
        decoder.decode({0, 0, 40, 32}, 1, pixels);
      };
      if (file[1] == 'P' && size + 12 >= file.size()) continue;  // a PNG without its end chunk still has all pixels
      EXPECT_THROW(read(), BrokenImage) << size << " of " << file.size();
    }
  }
}

TEST(ImageDecoder, DamagedFileIsDecodedOrBrokenImageIsThrown) {
  const test::Rgb image = test::smooth_image(48, 40);
  ImageDecoder decoder;
  Pixels pixels;
  const std::string files[] = {test::encode(image), test::encode(image, JpegKind::progressive),
                               test::encode(image, JpegKind::ycck), test::encode_png(image)};
  unsigned dice = 12345;
  for (const std::string& file : files) {
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = file;
      for (int hits = 0; hits <= round % 4; ++hits) {
        dice = dice * 1664525U + 1013904223U;
        damaged[(dice >> 8U) % damaged.size()] = static_cast<char>(dice >> 3U);
      }
      try {
        const ImageHeader header = decoder.open(bytes_of(damaged));
        if (static_cast<std::int64_t>(header.width) * header.height > 1 << 22) continue;  // slow, not interesting
        const int reduction = decoder.reduction_for(2.5);
        decoder.decode({0, 0, (header.width + reduction - 1) / reduction, (header.height + reduction - 1) / reduction},
                       reduction, pixels);
      } catch (const BrokenImage&) {
      }
    }
  }
}

TEST(ImageDecoder, ReductionIsLargestPowerOfTwoBelowFactor) {
  ImageDecoder decoder;
  const std::string jpeg = test::encode(test::smooth_image(64, 64));
  decoder.open(bytes_of(jpeg));
  EXPECT_EQ(decoder.reduction_for(0.3), 1);
  EXPECT_EQ(decoder.reduction_for(1.99), 1);
  EXPECT_EQ(decoder.reduction_for(2.0), 2);
  EXPECT_EQ(decoder.reduction_for(7.9), 4);
  EXPECT_EQ(decoder.reduction_for(100), 8);
  const std::string png = test::encode_png(test::smooth_image(64, 64));
  decoder.open(bytes_of(png));
  EXPECT_EQ(decoder.reduction_for(100), 1) << "a PNG is decoded whole";
}

TEST(EncodeJpeg, LibjpegReadsItBack) {
  const test::Rgb image = test::smooth_image(61, 47);
  const auto jpeg = encode_jpeg(image.bytes, 61, 47, 95);
  const test::Rgb back = test::decode_whole({reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
  ASSERT_EQ(back.bytes.size(), image.bytes.size());
  for (std::size_t i = 0; i < back.bytes.size(); ++i) ASSERT_NEAR(back.bytes[i], image.bytes[i], 16) << i;
  EXPECT_THROW((void)encode_jpeg(image.bytes, 61, 46, 95), UsageError);
}

}  // namespace
}  // namespace kolo::data

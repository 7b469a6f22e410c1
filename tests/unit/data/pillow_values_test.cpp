// Comparison with values of Pillow and torchvision. record_pillow_values.py wrote them, and describes the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "data/image_decoder.h"
#include "data/sample_maker.h"
#include "make_images.h"
#include "one_image.h"

namespace kolo::data {
namespace {

constexpr int kGrid = 21;

struct Record {
  std::string kind;
  std::string name;  // of png and jpeg
  int width = 0;
  int height = 0;
  int image_size = 0;  // of resize and jpeg
  std::string file;    // of png and jpeg
  std::string pixels;  // R, G, B bytes

  [[nodiscard]] int value(std::size_t i) const { return static_cast<unsigned char>(pixels[i]); }
};

std::string from_hexadecimal(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<Record> records(const std::string& kind) {
  std::ifstream lines(KOLO_PILLOW_VALUES);
  std::vector<Record> all;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Record record;
    words >> record.kind;
    if (record.kind != kind) continue;
    if (kind != "resize") words >> record.name;
    words >> record.width >> record.height;
    if (kind != "png") words >> record.image_size;
    std::string digits;
    if (kind != "resize" && words >> digits) record.file = from_hexadecimal(digits);
    words >> digits;
    record.pixels = from_hexadecimal(digits);
    all.push_back(std::move(record));
  }
  return all;
}

TEST(Png, PixelsEqualThoseOfPillow) {
  const std::vector<Record> pngs = records("png");
  ASSERT_GT(pngs.size(), 80U);
  ImageDecoder decoder;
  Pixels pixels;
  for (const Record& record : pngs) {
    const ImageHeader header = decoder.open(std::as_bytes(std::span(record.file)));
    ASSERT_EQ(header.width, record.width) << record.name;
    ASSERT_EQ(header.height, record.height) << record.name;
    decoder.decode({0, 0, record.width, record.height}, 1, pixels);
    ASSERT_EQ(record.pixels.size(), static_cast<std::size_t>(record.width * record.height) * 3);
    const std::string got(reinterpret_cast<const char*>(pixels.rgb.data()), record.pixels.size());
    EXPECT_TRUE(got == record.pixels) << record.name << ": the first value is " << int{pixels.rgb[0]}
                                      << ", Pillow's is " << record.value(0);
  }
}

// The largest difference, in levels, between an evaluation's image and the recorded grid of its points.
double worst_level(const Record& record, const std::string& file, PixelType type) {
  TransformOptions options;
  options.augment = Augment::eval;
  options.image_size = record.image_size;
  options.pixels = type;
  const auto size = static_cast<std::size_t>(record.image_size);
  std::vector<float> floats(size * size * 3);
  std::vector<std::uint8_t> bytes(size * size * 3);
  const bool rounded = type == PixelType::u8;
  SampleMaker maker(options, 1);
  maker.make(test::OneImage(file), 0, 0, rounded ? static_cast<void*>(bytes.data()) : floats.data());
  double worst = 0;
  for (std::size_t i = 0; i < record.pixels.size(); ++i) {
    const std::size_t c = i % 3;
    const std::size_t x = i / 3 % kGrid * (size - 1) / (kGrid - 1);
    const std::size_t y = i / 3 / kGrid * (size - 1) / (kGrid - 1);
    const std::size_t at = (y * size + x) * 3 + c;
    const double level = rounded ? bytes[at] : (floats[at] * options.deviation[c] + options.mean[c]) * 255.0;
    worst = std::max(worst, std::abs(level - record.value(i)));
  }
  return worst;
}

void expect_within_one_level(const Record& record, const std::string& file) {
  ASSERT_EQ(record.pixels.size(), std::size_t{kGrid} * kGrid * 3);
  const std::string what = record.kind + " " + record.name + " " + std::to_string(record.width) + " x " +
                           std::to_string(record.height) + " to " + std::to_string(record.image_size);
  EXPECT_LE(worst_level(record, file, PixelType::u8), 1) << what;
  EXPECT_LE(worst_level(record, file, PixelType::f32), 1.001) << what;
}

TEST(Evaluation, ResizeAndCropEqualTorchvisionWithinOneLevel) {
  const std::vector<Record> resizes = records("resize");
  ASSERT_GT(resizes.size(), 15U);
  for (const Record& record : resizes) {
    expect_within_one_level(record, test::encode_png(test::rough_image(record.width, record.height)));
  }
}

TEST(Evaluation, JpegsEqualTorchvisionWithinOneLevel) {
  const std::vector<Record> jpegs = records("jpeg");
  ASSERT_GE(jpegs.size(), 3U);
  for (const Record& record : jpegs) expect_within_one_level(record, record.file);
}

}  // namespace
}  // namespace kolo::data

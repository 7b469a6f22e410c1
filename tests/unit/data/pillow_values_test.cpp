// Against values that Pillow and torchvision gave: record_pillow_values.py has written them, and describes the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "data/image_decoder.h"
#include "make_images.h"

namespace kolo::data {
namespace {

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

TEST(Png, PixelsEqualPillows) {
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

}  // namespace
}  // namespace kolo::data

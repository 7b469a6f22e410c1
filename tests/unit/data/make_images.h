#pragma once
// Image files of every kind for tests, made by libjpeg and libpng directly and not by the code under test.
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::test {

struct Rgb {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> bytes;  // width * height * 3

  [[nodiscard]] std::uint8_t at(int x, int y, int channel) const {
    return bytes[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 3 +
                 static_cast<std::size_t>(channel)];
  }
};

// Smooth waves in each channel: JPEG keeps them nearly exactly.
Rgb smooth_image(int width, int height);

enum class JpegKind { colour420, colour444, progressive, grey, cmyk, ycck };
std::string encode(const Rgb& image, JpegKind kind = JpegKind::colour420, int quality = 95);
std::string encode_png(const Rgb& image, bool with_alpha = false);
// All of a JPEG at full size or reduced, by plain libjpeg.
Rgb decode_whole(const std::string& jpeg, int reduction = 1);

}  // namespace kolo::test

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
// Every pixel differs from its neighbours by many levels.
Rgb rough_image(int width, int height);

enum class JpegKind { colour420, colour444, progressive, grey, cmyk, ycck };
std::string encode(const Rgb& image, JpegKind kind = JpegKind::colour420, int quality = 95);
struct Sampling {
  int h = 1;
  int v = 1;
};
enum class Scans { one, one_for_each_component, progressive };
// Sampling factors for each component: one of grey, three of YCbCr or four of YCCK. A progressive file has two scans
// for each component. REQUIRES for Scans::one: at most ten blocks, the sum of h * v over several components.
std::string encode_sampled(const Rgb& image, const std::vector<Sampling>& factors, Scans scans);
std::string encode_png(const Rgb& image, bool with_alpha = false);
// All of a JPEG at full size or reduced, by plain libjpeg.
Rgb decode_whole(const std::string& jpeg, int reduction = 1);

}  // namespace kolo::test

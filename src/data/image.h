#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kolo/error.h"

namespace kolo::data {

// An image that cannot be decoded. The loader turns it into a line of its report.
class BrokenImage : public Error {
 public:
  using Error::Error;
};

// Half-open ranges of pixels.
struct Window {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

// Some pixels of an image: `window` says which. Rows of R, G, B bytes without padding.
struct Pixels {
  Window window;
  std::vector<std::uint8_t> rgb;  // may be longer than needed: it is kept from image to image and never shrinks

  void reserve(std::size_t bytes) {
    if (rgb.size() < bytes) rgb.resize(bytes);
  }
  [[nodiscard]] const std::uint8_t* row(int y) const noexcept {
    return rgb.data() + static_cast<std::size_t>(y - window.y) * static_cast<std::size_t>(window.width) * 3;
  }
};

// What is known before pixels are decoded.
struct ImageHeader {
  int width = 0;
  int height = 0;
  std::string converted_from;  // "CMYK JPEG", "YCCK JPEG", "grey JPEG", "PNG"; empty for the usual colour JPEG
};

// More than this is taken for a decompression bomb.
inline constexpr std::int64_t kMaxPixels = 178'956'970;

}  // namespace kolo::data
